"""What filters know of a text, measured for a batch of texts at once, as arrays."""
