"""Hosted tools, one module per kind."""
