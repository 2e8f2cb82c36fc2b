"""Model backends of the embedded provider: scripted, a chat endpoint, llama.cpp in the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.backends.chat import ChatBrain
    from toolcrib.embedded.backends.llama.backend import LocalBrain
    from toolcrib.embedded.backends.scripted.backend import ScriptedBrain
    from toolcrib.embedded.backends.scripted.recorder import Recorder
    from toolcrib.embedded.backends.scripted.scenario import Scenario, load_scenario, read_scenario

__all__ = [
    "ChatBrain",
    "LocalBrain",
    "Recorder",
    "Scenario",
    "ScriptedBrain",
    "load_scenario",
    "read_scenario",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.backends.chat": ("ChatBrain",),
            "toolcrib.embedded.backends.llama.backend": ("LocalBrain",),
            "toolcrib.embedded.backends.scripted.backend": ("ScriptedBrain",),
            "toolcrib.embedded.backends.scripted.recorder": ("Recorder",),
            "toolcrib.embedded.backends.scripted.scenario": (
                "Scenario",
                "load_scenario",
                "read_scenario",
            ),
        },
    )
