"""Which documents say what another one says already."""
