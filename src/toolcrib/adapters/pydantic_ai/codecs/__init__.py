"""Kinds of provider-run tools to and from pydantic-ai's native tools, one module each."""
