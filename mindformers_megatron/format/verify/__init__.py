"""Finding out whether a pair is sound, and if not, what is damaged in it and where."""
