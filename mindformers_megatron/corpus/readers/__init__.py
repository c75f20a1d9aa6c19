"""Raw files to documents."""
