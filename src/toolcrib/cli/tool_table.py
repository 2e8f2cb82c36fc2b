"""Tools on the screen: a table of many, and a page about one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.cli.output import show, show_json, show_text
from toolcrib.cli.table import Row, show_facts, show_table

if TYPE_CHECKING:
    from toolcrib.approval.policy import Policy

_HEADER: Final = ("name", "source", "approval", "description")
_WIDEST: Final = (0, 24, 0, 0)
_EFFECTS: Final = {"allow": "no", "ask": "asks", "deny": "denied"}
_SOMETIMES: Final = (
    "* other rules apply to some arguments or principals; see `toolcrib policy explain`"
)
_PAGE_FIRST: Final = ("name", "version", "source", "place", "category")


def show_tools(
    tools: Sequence[Mapping[str, Any]], unavailable: Mapping[str, str], policy_file: Path | None
) -> None:
    """Print the tools as a table, with those that cannot be had and why below it."""
    policy = None if policy_file is None else _load(policy_file)
    rows = [_row(tool, policy) for tool in tools]
    show_table(_HEADER, rows, widest=_WIDEST)
    if any(row.cells[2].endswith("*") for row in rows):
        show(_SOMETIMES, "dim")
    for name, reason in unavailable.items():
        show(f"{name} is unavailable: {reason}", "yellow")


def _load(file: Path) -> Policy:
    from toolcrib.approval.policy_file import load_policy
    from toolcrib.cli.output import fail
    from toolcrib.errors import InvalidPolicy

    try:
        return load_policy(file)
    except (InvalidPolicy, OSError) as error:
        fail(str(error))


def _row(tool: Mapping[str, Any], policy: Policy | None) -> Row:
    # Where a tool runs is part of where it is from, except where it runs elsewhere.
    source = tool["source"] if tool["place"] == "local" else f"{tool['source']} ({tool['place']})"
    approval = _approval(tool, policy)
    description = tool["description"].strip().split("\n")[0]
    style = {"denied": "dim", "asks": None}.get(approval.rstrip("*"))
    return Row((tool["name"], source, approval, description), style)


def _approval(tool: Mapping[str, Any], policy: Policy | None) -> str:
    """What becomes of a call: by the rules for all its calls, with `*` where others depend on the
    arguments or on who asks; without a policy, by the tool's own mark.
    """
    if policy is None:
        return "asks" if tool["requires_approval"] else "no"
    from dataclasses import replace

    from toolcrib.approval.rule import Subject
    from toolcrib.tools.identity import ToolRef

    ref = ToolRef(tool["name"], tool["source"], version="", digest="", place=tool["place"])
    subject = Subject(
        tool=ref,
        arguments={},
        is_read_only=tool["is_read_only"],
        requires_approval=tool["requires_approval"],
    )
    for_all = [rule for rule in policy.rules if not _is_conditional(rule)]
    effect = replace(policy, rules=tuple(for_all)).judge(subject).effect
    sometimes = [
        rule
        for rule in policy.rules
        if _is_conditional(rule)
        and replace(rule, arguments={}, principal=(), group=()).first_miss(subject) is None
    ]
    return _EFFECTS[effect] + ("*" if sometimes else "")


def _is_conditional(rule: Any) -> bool:
    return bool(rule.arguments or rule.principal or rule.group)


def show_tool(facts: Mapping[str, Any]) -> None:
    """Print a page about one tool: what it does, what it takes, and everything else."""
    show_text(facts["description"].strip())
    show("")
    left_out = {"description", "parameters", "output_schema", "digest", "argument_names"}
    names = [*_PAGE_FIRST, *(name for name in facts if name not in _PAGE_FIRST)]
    show_facts(
        [
            (name.replace("_", " "), _fact_text(facts[name]))
            for name in names
            if name not in left_out and facts.get(name) not in (None, [], False)
        ],
        room=19,
    )
    show("")
    _show_arguments(facts["parameters"])
    show("schema:")
    show_json(facts["parameters"])
    show("")
    show(f"digest: {facts['digest']}", "dim")


def _fact_text(value: Any) -> str:
    if value is True:
        return "yes"
    return ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)


def _show_arguments(parameters: Mapping[str, Any]) -> None:
    """The arguments by name, with their types and what they are for."""
    properties: Mapping[str, Any] = parameters.get("properties") or {}
    required: Sequence[str] = parameters.get("required") or ()
    if not properties:
        return
    show("arguments:")
    show_facts(
        [
            (f"  {name}", _argument_text(schema, is_required=name in required))
            for name, schema in properties.items()
        ]
    )
    show("")


def _argument_text(schema: Any, *, is_required: bool) -> str:
    facts: Mapping[str, Any] = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    kind: Any = facts.get("type", "any")
    words = [" or ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind)]
    if not is_required:
        words.append("optional")
    described = facts.get("description")
    return ", ".join(words) + (f"; {described}" if described else "")
