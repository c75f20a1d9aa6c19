"""Documents to token ids to .bin/.idx."""
