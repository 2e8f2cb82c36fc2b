"""What a request says of an MCP server: where it is, which tools, and who approves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

from toolcrib.local.faults import invalid

_ELSEWHERE: Final = ("connector_id", "tunnel_id")


@dataclass(frozen=True, slots=True)
class McpTerms:
    """A server and its terms. Without `allowed` every tool may be called."""

    label: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    allowed: frozenset[str] | None
    is_read_only: bool
    asks_never: bool
    asks_not_for: frozenset[str]
    """The tools that need no approval, unless none does."""

    def allows(self, tool: Mapping[str, Any]) -> bool:
        """Whether a tool of the server may be called at all."""
        if self.allowed is not None and tool["name"] not in self.allowed:
            return False
        annotations = cast(dict[str, Any], tool.get("annotations") or {})
        return not self.is_read_only or annotations.get("readOnlyHint") is True

    def needs_approval(self, name: str) -> bool:
        """Whether a person has to say yes first."""
        return not self.asks_never and name not in self.asks_not_for


def read_terms(config: Mapping[str, Any], param: str) -> McpTerms:
    """The terms of a request. Raises `ApiFault`."""
    label, url = config.get("server_label"), config.get("server_url")
    if not isinstance(label, str) or not label:
        raise invalid("Missing required parameter: 'server_label'.", f"{param}.server_label")
    for key in _ELSEWHERE:
        if config.get(key):
            raise invalid(f"'{key}' is not here; give a server_url.", f"{param}.{key}")
    if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https"):
        raise invalid("'server_url' must be an http or https address.", f"{param}.server_url")
    allowed, is_read_only = _allowed(config.get("allowed_tools"), param)
    asks_never, asks_not_for = _approval(config.get("require_approval"), param)
    headers = _headers(config, param)
    return McpTerms(label, url, headers, allowed, is_read_only, asks_never, asks_not_for)


def _headers(config: Mapping[str, Any], param: str) -> dict[str, str]:
    given: object = config.get("headers") or {}
    facts = cast(dict[str, Any], given) if isinstance(given, dict) else {"": None}
    if not all(isinstance(value, str) for value in facts.values()):
        raise invalid("'headers' must be names with text.", f"{param}.headers")
    headers = {name: str(value) for name, value in facts.items()}
    token = config.get("authorization")
    if isinstance(token, str):
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _allowed(given: object, param: str) -> tuple[frozenset[str] | None, bool]:
    if given is None:
        return None, False
    if isinstance(given, list):
        return _names(cast(list[object], given), f"{param}.allowed_tools"), False
    if not isinstance(given, dict):
        raise invalid("It must be names, or a filter.", f"{param}.allowed_tools")
    facts = cast(dict[str, Any], given)
    names = facts.get("tool_names")
    listed = None if names is None else _names(names, f"{param}.allowed_tools")
    return listed, facts.get("read_only") is True


def _approval(given: object, param: str) -> tuple[bool, frozenset[str]]:
    """Which tools need approval. Whatever is not said does."""
    at = f"{param}.require_approval"
    if given is None or given == "always":
        return False, frozenset()
    if given == "never":
        return True, frozenset()
    if not isinstance(given, dict):
        raise invalid("It must be 'always', 'never' or a filter.", at)
    facts = cast(dict[str, Any], given)
    never = cast(dict[str, Any], facts.get("never") or {})
    return False, _names(never.get("tool_names") or [], at)


def _names(given: object, param: str) -> frozenset[str]:
    listed = cast(list[object], given) if isinstance(given, list) else [None]
    if not all(isinstance(each, str) for each in listed):
        raise invalid("It must be a list of names.", param)
    return frozenset(map(str, listed))
