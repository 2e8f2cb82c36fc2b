"""Uploads: files that arrive in parts."""
