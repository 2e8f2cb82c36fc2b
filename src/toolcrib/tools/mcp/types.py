"""The options of a remote MCP server, its calls and their results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, cast

from toolcrib.errors import InvalidTool
from toolcrib.tools.mcp.credentials import check_headers, check_token, check_url, secrets_in
from toolcrib.tools.options import (
    ToolCaller,
    check_callers,
    check_flag,
    check_names,
    check_text,
)
from toolcrib.tools.result import NamedFields

_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """A selection of the tools of a server: by name, by whether they only read, or both."""

    names: tuple[str, ...] = ()
    read_only: bool | None = None

    def __post_init__(self) -> None:
        check_names("ToolFilter.names", self.names)
        check_flag("ToolFilter.read_only", self.read_only)
        if not self.names and self.read_only is None:
            raise InvalidTool("ToolFilter picks nothing; give it names or read_only")


@dataclass(frozen=True, slots=True)
class ApprovalFilter:
    """The tools that always need an approval, and those that never do."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None

    def __post_init__(self) -> None:
        for side, value in (("always", self.always), ("never", self.never)):
            if not isinstance(value, ToolFilter | None):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidTool(f"ApprovalFilter.{side} must be a ToolFilter, not {value!r}")
        if self.always is None and self.never is None:
            raise InvalidTool("ApprovalFilter says nothing; give it always or never")


RequireApproval: TypeAlias = Literal["always", "never"] | ApprovalFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class McpConfig:
    """An MCP server, named by exactly one of `server_url`, `connector_id` and `tunnel_id`.

    `authorization` and `headers` are secrets: they go to the provider and nowhere else. An address
    may hold a secret too, so none is shown.
    """

    kind: ClassVar[str] = "mcp"
    credentials: ClassVar[tuple[str, ...]] = ("authorization", "headers")
    server_label: str
    """The name that the model knows the server by; unique in a prompt."""
    server_url: str | None = field(default=None, repr=False)
    connector_id: str | None = None
    """A service that the provider itself connects to."""
    tunnel_id: str | None = None
    description: str | None = None
    authorization: str | None = field(default=None, repr=False)
    """An access token, without the word `Bearer`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    account: str | None = None
    """Whose credentials these are. With it, decisions are bound to the account in place of the
    values of `authorization` and `headers`, so that a token may be refreshed while a call waits."""
    allowed_tools: tuple[str, ...] | ToolFilter | None = None
    """`None` allows all."""
    require_approval: RequireApproval = "always"
    defer_loading: bool = False
    """Whether the model must search for the server's tools before it sees them."""
    allowed_callers: tuple[ToolCaller, ...] | None = None
    """Who may call its tools; `None` takes the provider's default, the model alone."""

    def __post_init__(self) -> None:
        _check_label(self.server_label)
        self._check_place()
        check_text("McpConfig.description", self.description)
        check_token("McpConfig.authorization", self.authorization)
        check_text("McpConfig.account", self.account)
        # A copy: headers changed after the check would not be those that were checked.
        headers = check_headers("McpConfig.headers", self.headers)
        object.__setattr__(self, "headers", headers)
        _check_allowed(self.allowed_tools)
        _check_approval(self.require_approval)
        check_flag("McpConfig.defer_loading", self.defer_loading)
        check_callers("McpConfig.allowed_callers", self.allowed_callers)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be recorded, in every spelling."""
        return secrets_in(self.server_url or "", self.authorization or "", *self.headers.values())

    def _check_place(self) -> None:
        check_url("McpConfig.server_url", self.server_url)
        check_text("McpConfig.connector_id", self.connector_id)
        check_text("McpConfig.tunnel_id", self.tunnel_id)
        names = [
            name
            for name in ("server_url", "connector_id", "tunnel_id")
            if getattr(self, name) is not None
        ]
        if len(names) != 1:
            raise InvalidTool(
                "McpConfig needs exactly one of server_url, connector_id and tunnel_id; "
                f"it has {' and '.join(names) or 'none'}"
            )


def _check_label(label: object) -> None:
    if not isinstance(label, str) or not _LABEL.fullmatch(label):
        raise InvalidTool(f"McpConfig.server_label must match {_LABEL.pattern}; {label!r} does not")


def _check_allowed(allowed: object) -> None:
    if allowed is None or isinstance(allowed, ToolFilter):
        return
    check_names("McpConfig.allowed_tools", allowed)
    if not cast("tuple[Any, ...]", allowed):
        raise InvalidTool(
            "McpConfig.allowed_tools allows no tool at all; leave the server out, or pass None to "
            "allow all"
        )


def _check_approval(approval: object) -> None:
    if approval not in ("always", "never") and not isinstance(approval, ApprovalFilter):
        raise InvalidTool(
            "McpConfig.require_approval must be 'always', 'never' or an ApprovalFilter, "
            f"not {approval!r}"
        )


@dataclass(frozen=True, slots=True)
class McpCall:
    """A call of one tool of a server."""

    server: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)


@dataclass(frozen=True, slots=True)
class McpCallResult(NamedFields):
    """The result of one call. An `error` means that the tool failed or could not be reached."""

    tool: str
    output: str = ""
    error: str | None = None
    approval_request_id: str | None = None
    """The approval request that was decided before the call ran."""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """What the tool was called with."""
    status: str = "completed"
    """`completed`, or the provider's word for how the call ended."""

    def render(self) -> str:
        """Return the output and the error."""
        return "\n".join(filter(None, (self.output, self.error)))


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool as its server describes it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """What the server says of its effects (`readOnlyHint` and the like): a claim, no promise."""

    @property
    def is_read_only(self) -> bool | None:
        """Whether the server says that the tool changes nothing; `None` when it does not say."""
        hint = self.annotations.get("readOnlyHint", self.annotations.get("read_only"))
        return hint if isinstance(hint, bool) else None


@dataclass(frozen=True, slots=True)
class McpResult(NamedFields):
    """All calls in order, the tools that the server listed, and why it could not list any."""

    calls: tuple[McpCallResult, ...] = ()
    tools: tuple[McpTool, ...] = ()
    error: str | None = None

    def render(self) -> str:
        """Return the results of all calls."""
        return "\n".join(filter(None, (self.error, *(call.render() for call in self.calls))))
