"""How long tests wait for something that must happen."""

from typing import Final

PATIENCE: Final = 120.0
"""Seconds. A wait ends when its condition holds; only a hang reaches this ceiling, however busy the
machine is. Keep it below pytest's own `timeout`, so that the wait says what did not happen."""
