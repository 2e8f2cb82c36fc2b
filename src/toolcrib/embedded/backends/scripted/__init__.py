"""A backend that follows a written scenario, and takes every fact from what the tools answer."""
