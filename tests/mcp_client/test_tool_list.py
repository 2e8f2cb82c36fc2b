"""A server's tools as ours."""

from __future__ import annotations

from typing import Any

from mcp_types import Tool as Told

from toolcrib.mcp_client import MountTerms
from toolcrib.mcp_client.tool_list import MAX_TOOLS, RemoteTools, remote_tools


async def handler(given: dict[str, Any], context: Any) -> None: ...


def listed(*told: Told, rejected: dict[str, str] | None = None, **terms: Any) -> RemoteTools:
    chosen = MountTerms(prefix="p_", **terms)
    return remote_tools(told, rejected or {}, "mcp:p", chosen, lambda name, promise: handler)


def told(name: str, description: str | None = "Does it.", **more: Any) -> Told:
    schema = more.pop("schema", {"type": "object"})
    return Told(name=name, description=description, input_schema=schema, **more)


def test_a_tool_without_a_description_gets_one() -> None:
    """A model must be told something; a title will do, and else its name."""
    [titled, bare] = listed(told("a", None, title="The A"), told("b", " ")).served.values()

    assert titled.description == "The A"
    assert bare.description == "The tool b; its server gives no description."


def test_terms_are_the_tools_own_rules() -> None:
    """Whose gate it has and how long it may take is in the configuration."""
    [always] = listed(told("a")).served.values()
    [governed] = listed(told("a"), approval="policy", timeout=5).served.values()

    assert (always.requires_approval, always.timeout) == (True, 120)
    assert (governed.requires_approval, governed.timeout) == (False, 5)


def test_a_promise_is_name_description_and_schema() -> None:
    """R50: whatever a model or a person reads of a tool is part of what it digests."""
    digests = [
        listed(told("a")).digests["a"],
        listed(told("a", "Does something else.")).digests["a"],
        listed(told("a", schema={"type": "object", "required": ["x"]})).digests["a"],
    ]

    assert len(set(digests)) == 3
    assert listed(told("a")).digests["a"] == digests[0]


def test_line_ends_of_other_systems_are_no_fault() -> None:
    """A description in several lines, as Windows writes them, is fine."""
    [tool] = listed(told("a", "One.\r\nTwo.")).served.values()

    assert tool.description == "One.\nTwo."


def test_more_tools_than_anybody_can_use_are_not_taken() -> None:
    """A server cannot fill our memory with tools."""
    found = listed(*(told(f"t{number}") for number in range(MAX_TOOLS + 5)))

    assert len(found.served) == MAX_TOOLS
    assert len(found.invalid) == 5


def test_what_was_rejected_is_told_under_its_name_here() -> None:
    """Names are shown without what cannot be printed, and no longer than names are."""
    found = listed(rejected={"bad\x1b[0m": "name: too\nbad", "x" * 500: "long"})

    assert found.invalid["p_bad?[0m"] == "name: too bad"
    assert max(map(len, found.invalid)) == 128
