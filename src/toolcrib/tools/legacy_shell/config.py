"""The options of the first local shell: there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class LegacyShellConfig:
    """Marks a tool as the first local shell, which older models were trained on."""

    kind: ClassVar[str] = "local_shell"
