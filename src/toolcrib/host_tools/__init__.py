"""Tools that the host application defines as JSON Schema and a function."""
