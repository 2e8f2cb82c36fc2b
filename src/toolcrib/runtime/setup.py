"""How a session was set up, kept with it: whoever opens it again gets no more than it had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def wanted_by(asked: CreateSession) -> Callable[[str], bool]:
    """Whether whoever asked for a session wants a tool of a name in it."""
    allowed, denied = asked.allowed_tools, frozenset(asked.denied_tools)
    return lambda name: (allowed is None or name in allowed) and name not in denied


@cache
def _adapter() -> TypeAdapter[Setup]:
    return TypeAdapter(Setup)
