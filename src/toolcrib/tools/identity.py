"""Which tool exactly: the identity that events, approvals and grants refer to.

Which capability of a provider's a tool is, and whose: what a policy can go by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Place = Literal["local", "sandbox", "client", "provider"]
"""Where a call runs: this process, a confined one, the connected client, the model's platform."""


@dataclass(frozen=True, slots=True)
class ToolRef:
    """A tool at one version. Its identity is `source` + `name`; `digest` is of what it promises."""

    name: str
    source: str
    version: str
    digest: str
    place: Place

    @property
    def id(self) -> str:
        """`source/name`: what policies and grants key on, so a namesake is not covered."""
        return f"{self.source}/{self.name}"
