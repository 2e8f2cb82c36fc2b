"""Containers: folders that sandboxed code works in, for as long as they are used."""
