"""The commands of mfm, one module each."""
