"""Toolcrib: define a tool once, gate it, run it anywhere, keep one record of every call."""

from toolcrib._version import __version__

__all__ = ["__version__"]
