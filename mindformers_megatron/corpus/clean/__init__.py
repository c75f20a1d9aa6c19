"""Steps that rewrite texts."""
