"""Files that clients upload."""
