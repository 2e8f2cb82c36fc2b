"""What the exit status of every command means, the same everywhere."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    """Done."""
    FAILED = 1
    """Not done, or done and found wanting; stderr says why."""
    USAGE = 2
    """The command was wrongly called; nothing was done."""
    DENIED = 3
    """A policy or a person said no; the tool did not run."""
    WAITING = 4
    """It waits for a decision; stderr says on what, and how to go on."""
    INTERRUPTED = 130
    """Stopped from the keyboard."""
