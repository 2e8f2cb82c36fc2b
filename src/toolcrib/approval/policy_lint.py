"""Cautions: rules that are valid but may not do what they seem to do (`toolcrib policy check`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from toolcrib.approval.globs import is_plain_path
from toolcrib.approval.pattern import Glob, Not, Pattern
from toolcrib.approval.policy import Policy
from toolcrib.approval.rule import Rule
from toolcrib.approval.tool_names import unknown_names

_COMMANDS = frozenset({"command", "cmd", "sql", "script"})
_BRACKETS = re.compile(r"[\[\]{}]")


@dataclass(frozen=True, slots=True)
class Caution:
    """A rule that may not do what it seems to do."""

    rule: str
    message: str
    line: int | None = None


def cautions(policy: Policy) -> tuple[Caution, ...]:
    """Return all cautions, in the order of the rules."""
    return tuple(
        Caution(rule.id, message, rule.line)
        for rule in policy.rules
        for message in (*_about_globs(rule), *_about_shadows(rule, policy))
    )


def unknown_tools(policy: Policy, known: Collection[str]) -> tuple[Caution, ...]:
    """The rules that name a tool which is not `known`, and so decide about nothing."""
    return tuple(
        Caution(rule.id, f"no tool is named {unknown.name!r}{unknown.hint}", rule.line)
        for rule in rules_of_one_tool(policy)
        for unknown in unknown_names((rule.tool,), known)
    )


def rules_of_one_tool(policy: Policy) -> Iterator[Rule]:
    """The rules that name their tool in full, and one that a host can list: tools of a client, and
    those of a kind or a provider, come with a session or a prompt.
    """
    for rule in policy.rules:
        is_for_host = rule.place in (None, "local", "sandbox")
        is_for_host = is_for_host and rule.kind == "*" and rule.provider == "*"
        if is_for_host and rule.names_one_tool:
            yield rule


def _about_globs(rule: Rule) -> Iterator[str]:
    for pointer, pattern in rule.arguments.items():
        glob = _glob_in(pattern)
        if glob is None:
            continue
        if _BRACKETS.search(glob):
            yield f"{pointer}: brackets in the glob {glob!r} stand for themselves; * and ? do not"
        if rule.effect == "allow" and _is_command_glob(pointer, glob):
            yield (
                f"{pointer}: the glob {glob!r} lets more commands through than it seems to, "
                "such as one with `; rm` behind it; write one_of or regex"
            )
        if rule.effect == "allow" and not is_plain_path(_sample(glob)):
            yield f"{pointer}: the glob {glob!r} is no plain path, so it allows nothing"


def _about_shadows(rule: Rule, policy: Policy) -> Iterator[str]:
    for other in policy.rules:
        is_stronger = rule.effect == "allow" != other.effect
        is_blanket = not other.arguments and other.place is None
        is_blanket = is_blanket and not (other.principal or other.group)
        is_blanket = is_blanket and {other.source, other.kind, other.provider} == {"*"}
        if is_stronger and is_blanket and other.tool in ("*", rule.tool):
            yield f'this never counts, because rule "{other.id}" says {other.effect} to all of it'


def _glob_in(pattern: Pattern) -> str | None:
    while isinstance(pattern, Not):
        pattern = pattern.pattern
    return pattern.glob if isinstance(pattern, Glob) else None


def _is_command_glob(pointer: str, glob: str) -> bool:
    is_open = glob.endswith("*") or any(character.isspace() for character in glob)
    return pointer.rpartition("/")[2] in _COMMANDS and is_open


def _sample(glob: str) -> str:
    """Return a value that the glob matches, if it matches any plain path."""
    return glob.replace("*", "x").replace("?", "x")
