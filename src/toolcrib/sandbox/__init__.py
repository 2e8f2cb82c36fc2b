"""Confined execution: run a command so that it sees, writes and uses only what it is given."""

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
