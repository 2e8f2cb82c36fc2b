"""Vector stores: collections of uploaded files that can be searched."""
