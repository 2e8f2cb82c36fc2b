"""How a session was set up, kept with it: whoever opens it again gets no more than it had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from toolcrib.runtime.messages import CreateSession, ResumeSession


@dataclass(frozen=True, slots=True)
class Setup:
    """What stays of a request for a session. Its environment does not: that may hold secrets."""

    cwd: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    allowed_tools: list[str] | None = None
    denied_tools: list[str] = field(default_factory=list[str])


def setup_of(settings: Mapping[str, Any]) -> Setup:
    """The setup of a session by the settings that its store has."""
    return _adapter().validate_python(settings.get("kept", {}).get("setup", {}))


def to_keep(asked: CreateSession, cwd: str) -> dict[str, Any]:
    """What is kept of a request, as JSON."""
    return _adapter().dump_python(
        Setup(cwd, dict(asked.metadata), asked.allowed_tools, asked.denied_tools), mode="json"
    )


def asked_again(setup: Setup, asked: ResumeSession) -> CreateSession:
    """The request that opens a session of this setup again."""
    return CreateSession(
        session_id=asked.session_id,
        cwd=setup.cwd,
        environment=asked.environment,
        metadata=setup.metadata,
        allowed_tools=setup.allowed_tools,
        denied_tools=setup.denied_tools,
        capabilities=asked.capabilities,
        client_tools=asked.client_tools,
    )


@cache
def _adapter() -> TypeAdapter[Setup]:
    return TypeAdapter(Setup)
