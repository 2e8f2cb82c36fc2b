"""Model backends: a written scenario, a chat endpoint, or a model in this process.

Names load their module when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.embedded.backends.chat import ChatBackend
    from toolcrib.embedded.backends.llama.backend import LlamaBackend
    from toolcrib.embedded.backends.scripted.backend import ScriptedBackend
    from toolcrib.embedded.backends.scripted.recorder import ScenarioRecorder
    from toolcrib.embedded.backends.scripted.scenario import Scenario, load_scenario, read_scenario

__all__ = [
    "ChatBackend",
    "LlamaBackend",
    "Scenario",
    "ScenarioRecorder",
    "ScriptedBackend",
    "load_scenario",
    "read_scenario",
]

_HOMES = {
    "ChatBackend": "chat",
    "LlamaBackend": "llama.backend",
    "Scenario": "scripted.scenario",
    "ScenarioRecorder": "scripted.recorder",
    "ScriptedBackend": "scripted.backend",
    "load_scenario": "scripted.scenario",
    "read_scenario": "scripted.scenario",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
