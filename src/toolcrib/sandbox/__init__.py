"""Confined execution: run a command so that it sees, writes and uses only what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.sandbox.command import (
        BackendName,
        Command,
        CommandResult,
        KilledBy,
        SandboxLimits,
        SandboxOptions,
    )
    from toolcrib.sandbox.detection import find_sandbox
    from toolcrib.sandbox.process import Process
    from toolcrib.sandbox.python import Python, find_python
    from toolcrib.sandbox.sandbox import Sandbox
    from toolcrib.sandbox.work_directory import WorkDirectory, WorkFile

__all__ = [
    "BackendName",
    "Command",
    "CommandResult",
    "KilledBy",
    "Process",
    "Python",
    "Sandbox",
    "SandboxLimits",
    "SandboxOptions",
    "WorkDirectory",
    "WorkFile",
    "find_python",
    "find_sandbox",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.sandbox.command": (
                "BackendName",
                "Command",
                "CommandResult",
                "KilledBy",
                "SandboxLimits",
                "SandboxOptions",
            ),
            "toolcrib.sandbox.detection": ("find_sandbox",),
            "toolcrib.sandbox.process": ("Process",),
            "toolcrib.sandbox.python": ("Python", "find_python"),
            "toolcrib.sandbox.sandbox": ("Sandbox",),
            "toolcrib.sandbox.work_directory": ("WorkDirectory", "WorkFile"),
        },
    )
