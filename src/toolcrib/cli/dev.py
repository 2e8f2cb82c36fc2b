"""`toolcrib dev`."""
