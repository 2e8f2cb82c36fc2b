"""Codecs between kinds of hosted tools and pydantic-ai's native tools, one module each."""
