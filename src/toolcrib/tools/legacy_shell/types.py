"""The options of the first local shell: there are none.

What the first local shell is asked to run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class LegacyShellConfig:
    """Marks a tool as the first local shell, which older models were trained on."""

    kind: ClassVar[str] = "local_shell"


@dataclass(frozen=True, slots=True)
class LegacyShellParams:
    """One command, as its words; no shell reads it unless the first word is one."""

    command: list[str]
    env: dict[str, str] = field(default_factory=dict[str, str])
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None
