"""Prompts: sections with tools, rendered to text, with a typed answer."""
