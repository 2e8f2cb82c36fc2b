"""Model backends: a written scenario, a chat endpoint, or llama.cpp in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.backends.chat import ChatBackend
    from toolcrib.embedded.backends.llama.backend import LlamaBackend
    from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend
    from toolcrib.embedded.backends.scenarios.recorder import ScenarioRecorder
    from toolcrib.embedded.backends.scenarios.scenario import Scenario, load_scenario, read_scenario

__all__ = [
    "ChatBackend",
    "LlamaBackend",
    "Scenario",
    "ScenarioRecorder",
    "ScriptedBackend",
    "load_scenario",
    "read_scenario",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.backends.chat": ("ChatBackend",),
            "toolcrib.embedded.backends.llama.backend": ("LlamaBackend",),
            "toolcrib.embedded.backends.scenarios.backend": ("ScriptedBackend",),
            "toolcrib.embedded.backends.scenarios.recorder": ("ScenarioRecorder",),
            "toolcrib.embedded.backends.scenarios.scenario": (
                "Scenario",
                "load_scenario",
                "read_scenario",
            ),
        },
    )
