"""A file of the host that was given to a container."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StagedFile:
    """What is known of a staged file, without what is in it."""

    name: str
    """The path that its mount gives it."""
    path: str
    """Where it lies in the container."""
    file_id: str
    size: int
    sha256: str
