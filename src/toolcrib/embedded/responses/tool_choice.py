"""The tool choice of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import ToolChoiceMode
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.client_tools import NAMESPACE, read_client_tools

if TYPE_CHECKING:
    from toolcrib.embedded.responses.request import ResponseRequest


_KEYS: Final = ("type", "name", "namespace", "server_label")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tool choice of a request.

    `only` are the tools that it names, if any. A choice that forces a tool holds until a tool was
    called; a list of allowed tools (`is_lasting`) holds for the whole response.
    """

    first: ToolChoiceMode
    only: tuple[Mapping[str, Any], ...] | None = None
    is_lasting: bool = False

    def mode(self, *, has_called: bool) -> ToolChoiceMode:
        """The mode of the next backend request."""
        return "auto" if has_called and self.first == "required" else self.first

    def allows(self, *, has_called: bool) -> Callable[[Mapping[str, Any]], bool]:
        """A predicate: whether the choice allows a tool with these facts."""
        only = self.only
        if only is None or (has_called and not self.is_lasting):
            return lambda facts: True
        return lambda facts: any(_is_meant(named, facts) for named in only)

    def names(self, facts: Mapping[str, Any]) -> bool:
        """Whether the choice names this very tool, which then needs no search."""
        return self.only is not None and any(_is_meant(named, facts) for named in self.only)


def read_choice(request: ResponseRequest) -> ToolChoice:
    """Read the tool choice of a request. Raises `ApiFault`."""
    choice = "auto" if request.tool_choice is None else request.tool_choice
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise invalid(f"Unknown tool_choice: {choice[:80]!r}.", "tool_choice")
        if choice == "required" and not request.tools:
            raise invalid("tool_choice is 'required', and there are no tools.", "tool_choice")
        return ToolChoice(choice)
    facts = _facts_of(request)
    if choice.get("type") == "allowed_tools":
        return _allowed(choice, facts)
    return ToolChoice("required", (_found(choice, facts, "tool_choice"),))


def _facts_of(request: ResponseRequest) -> list[Mapping[str, Any]]:
    """What a choice may name: the tools of the client one by one, the others as configured."""
    facts: list[Mapping[str, Any]] = []
    for config in request.tools or []:
        client = read_client_tools(config, "tools")
        facts += [tool.facts for tool in client] if client else [config]
    return facts


def _allowed(choice: Mapping[str, Any], facts: Sequence[Mapping[str, Any]]) -> ToolChoice:
    mode, tools = choice.get("mode", "auto"), choice.get("tools")
    if mode not in ("auto", "required"):
        raise invalid("The mode must be 'auto' or 'required'.", "tool_choice.mode")
    listed = cast(list[object], tools) if isinstance(tools, list) else [None]
    if not all(isinstance(tool, dict) for tool in listed):
        raise invalid("'tools' must be a list of tools.", "tool_choice.tools")
    named = tuple(
        _found(tool, facts, f"tool_choice.tools[{at}]")
        for at, tool in enumerate(cast(list[dict[str, Any]], listed))
    )
    return ToolChoice(cast(ToolChoiceMode, mode), named, is_lasting=True)


def _found(
    named: Mapping[str, Any], facts: Sequence[Mapping[str, Any]], param: str
) -> Mapping[str, Any]:
    """The named tool, if the request has it. Without a namespace, the one outside of all
    namespaces is meant if there is one.
    """
    # The tool names of a remote server are unknown until the server is connected.
    keys = ("type", "server_label") if named.get("type") == "mcp" else _KEYS
    wanted = {key: named[key] for key in keys if key in named}
    matches = [each for each in facts if _is_meant(wanted, each)]
    if not matches:
        raise invalid("Tool choice names a tool that the request does not have.", param)
    is_outside = any("namespace" in each and each["namespace"] is None for each in matches)
    return {**named, "namespace": None} if is_outside and "namespace" not in named else named


def _is_meant(named: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether a tool matches a named one in all keys that the name has."""
    type_, other = str(named.get("type")), str(facts.get("type"))
    if type_ == NAMESPACE:
        return named.get("name") is not None and named["name"] == facts.get("namespace")
    # A type may end in a date, such as web_search_2025_08_26.
    if other != type_ and not other.startswith(f"{type_}_20"):
        return False
    if "namespace" in named and named["namespace"] != facts.get("namespace"):
        return False
    keys = ("server_label", "name") if type_ == "mcp" else ("name",)
    if type_ not in ("mcp", "function", "custom"):
        return True
    return all(named.get(key) in (None, facts.get(key)) for key in keys)
