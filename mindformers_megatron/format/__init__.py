"""Megatron .bin/.idx files on disk."""
