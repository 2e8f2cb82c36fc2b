"""Which tools a request lets the brain choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolcrib.local.brain import Choice
from toolcrib.local.faults import invalid

if TYPE_CHECKING:
    from toolcrib.local.responses.request import CreateResponse

_KEYS = ("type", "name", "server_label")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice. `only` are the tools that it names, if it names any; a choice that forces one
    holds until a tool was called, a list of allowed ones holds on.
    """

    first: Choice
    only: tuple[Mapping[str, Any], ...] | None = None
    is_lasting: bool = False

    def mode(self, *, has_called: bool) -> Choice:
        """Whether something has to be proposed."""
        return "auto" if has_called and self.first == "required" else self.first

    def allows(self, *, has_called: bool) -> Callable[[Mapping[str, Any]], bool]:
        """Whether a tool with these facts may be proposed."""
        only = self.only
        if only is None or (has_called and not self.is_lasting):
            return lambda facts: True
        return lambda facts: any(_is_meant(named, facts) for named in only)


def read_choice(asked: CreateResponse) -> Chosen:
    """The choice of a request. Raises `ApiFault`."""
    choice = "auto" if asked.tool_choice is None else asked.tool_choice
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise invalid(f"Unknown tool_choice: {choice[:80]!r}.", "tool_choice")
        if choice == "required" and not asked.tools:
            raise invalid("tool_choice is 'required', and there are no tools.", "tool_choice")
        return Chosen(choice)
    if choice.get("type") == "allowed_tools":
        return _allowed(choice, asked)
    _check_named(choice, asked, "tool_choice")
    return Chosen("required", (choice,))


def _allowed(choice: Mapping[str, Any], asked: CreateResponse) -> Chosen:
    mode, tools = choice.get("mode", "auto"), choice.get("tools")
    if mode not in ("auto", "required"):
        raise invalid("The mode must be 'auto' or 'required'.", "tool_choice.mode")
    listed = cast(list[object], tools) if isinstance(tools, list) else [None]
    if not all(isinstance(each, dict) for each in listed):
        raise invalid("'tools' must be a list of tools.", "tool_choice.tools")
    named = tuple(cast(list[dict[str, Any]], listed))
    for at, each in enumerate(named):
        _check_named(each, asked, f"tool_choice.tools[{at}]")
    return Chosen(cast(Choice, mode), named, is_lasting=True)


def _check_named(named: Mapping[str, Any], asked: CreateResponse, param: str) -> None:
    # The name of a remote server's tool is not known before the server was asked.
    keys = ("type", "server_label") if named.get("type") == "mcp" else _KEYS
    if not any(_is_meant({k: named[k] for k in keys if k in named}, t) for t in asked.tools or []):
        raise invalid("Tool choice names a tool that the request does not have.", param)


def _is_meant(named: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether a tool is the one that was named; what was not said of it does not matter."""
    type_, other = str(named.get("type")), str(facts.get("type"))
    # A type may have a date behind it, such as web_search_2025_08_26.
    if other != type_ and not other.startswith(f"{type_}_20"):
        return False
    keys = ("server_label", "name") if type_ == "mcp" else ("name",)
    if type_ not in ("mcp", "function", "custom"):
        return True
    return all(named.get(key) in (None, facts.get(key)) for key in keys)
