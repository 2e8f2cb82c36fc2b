"""Twins of the outside world, for the package's tests and for yours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.testing.clock import FakeClock, VirtualTimeLoop, run_in_virtual_time
    from toolcrib.testing.recorder import Recorder
    from toolcrib.testing.scripted_openai import ScriptedOpenAI, calls, says

__all__ = [
    "FakeClock",
    "Recorder",
    "ScriptedOpenAI",
    "VirtualTimeLoop",
    "calls",
    "run_in_virtual_time",
    "says",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.testing.clock": ("FakeClock", "VirtualTimeLoop", "run_in_virtual_time"),
            "toolcrib.testing.recorder": ("Recorder",),
            "toolcrib.testing.scripted_openai": ("ScriptedOpenAI", "calls", "says"),
        },
    )
