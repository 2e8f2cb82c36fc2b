"""What a remote MCP server is asked to do, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class McpRequest:
    """A call of one tool of a server."""

    server: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)


@dataclass(frozen=True, slots=True)
class McpAnswer:
    """What a call gave back. With an `error` the tool itself failed, or could not be reached."""

    tool: str
    output: str = ""
    error: str | None = None
    approval_request_id: str | None = None
    """The question that was answered before the call ran."""

    def render(self) -> str:
        """The output, and what went wrong."""
        return "\n".join(filter(None, (self.output, self.error)))


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool as its server describes it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)


@dataclass(frozen=True, slots=True)
class McpResult:
    """All calls in order, the tools that the server offered, and why it could not offer any."""

    calls: tuple[McpAnswer, ...] = ()
    tools: tuple[McpTool, ...] = ()
    error: str | None = None

    def render(self) -> str:
        """What the calls gave back."""
        return "\n".join(filter(None, (self.error, *(call.render() for call in self.calls))))
