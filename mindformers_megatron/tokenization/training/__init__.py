"""Training tokenizers on a corpus's own text."""
