"""Evaluation texts found in training texts, and taken out of them."""
