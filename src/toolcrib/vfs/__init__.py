"""Paths in a virtual file system, and what of the host is shown in it."""
