"""Layouts of tokens on disk that are not Megatron's own: reading them, and writing those that others read."""
