"""Measuring how well tokenizers fit a corpus."""
