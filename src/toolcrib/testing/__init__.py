"""Twins of the outside world, for the package's tests and for yours."""

from __future__ import annotations

from toolcrib.testing.clock import FakeClock
from toolcrib.testing.recorder import Recorder
from toolcrib.testing.scripted import ScriptedOpenAI, calls, says
from toolcrib.testing.virtual_time import VirtualTimeLoop, run_in_virtual_time

__all__ = [
    "FakeClock",
    "Recorder",
    "ScriptedOpenAI",
    "VirtualTimeLoop",
    "calls",
    "run_in_virtual_time",
    "says",
]
