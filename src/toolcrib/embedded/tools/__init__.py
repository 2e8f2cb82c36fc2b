"""The tools that the provider runs itself, one module each."""
