"""Cautions: rules that are valid but may not do what they seem to do (`toolcrib policy check`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from toolcrib.approval.globs import is_plain_path, name_matches
from toolcrib.approval.pattern import Glob, Not, Pattern, segments
from toolcrib.approval.policy import Policy
from toolcrib.approval.rule import Rule
from toolcrib.approval.tool_names import similar_name, unknown_names
from toolcrib.errors import InvalidPolicy
from toolcrib.tools.argument_names import ArgumentNames
from toolcrib.tools.identity import Place
from toolcrib.tools.rules import RESERVED_NAMES

_COMMANDS = frozenset({"command", "cmd", "sql", "script"})
_BRACKETS = re.compile(r"[\[\]{}]")


@dataclass(frozen=True, slots=True)
class Caution:
    """A rule that may not do what it seems to do."""

    rule: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """What a rule about the arguments of a tool is compared with."""

    name: str
    source: str
    place: Place
    names: ArgumentNames


def cautions(policy: Policy) -> tuple[Caution, ...]:
    """Return all cautions, in the order of the rules."""
    return tuple(
        Caution(rule.id, message, rule.line)
        for rule in policy.rules
        for message in (*_about_globs(rule), *_about_shadows(rule, policy))
    )


def unknown_tools(policy: Policy, known: Collection[str]) -> tuple[Caution, ...]:
    """The rules that name a tool which is not `known`, and so decide about nothing."""
    known = {*known, *RESERVED_NAMES}
    return tuple(
        Caution(rule.id, f"no tool is named {unknown.name!r}{unknown.hint}", rule.line)
        for rule in rules_of_one_tool(policy)
        for unknown in unknown_names((rule.tool,), known)
    )


@dataclass(frozen=True, slots=True)
class UnknownArgument:
    """A rule about an argument that its tool does not have.

    It is an error where the rule denies or asks and the tool takes no other arguments: then it
    protects nothing. Else it is a warning: the rule allows less than it seems to, or the argument
    is not declared but could be sent.
    """

    tool: str
    caution: Caution
    is_error: bool


def unknown_arguments(
    policy: Policy, tools: Iterable[ToolArguments]
) -> tuple[UnknownArgument, ...]:
    """The rules that name one of `tools` in full, and an argument that it does not have."""
    return tuple(
        unknown
        for tool in tools
        for rule in policy.rules
        if _is_about(rule, tool)
        for pointer in rule.arguments
        if (unknown := _unknown_argument(rule, pointer, tool)) is not None
    )


def check_arguments(policy: Policy, tools: Iterable[ToolArguments]) -> None:
    """Raise `InvalidPolicy` for a rule that protects nothing, because its argument is unknown."""
    for unknown in unknown_arguments(policy, tools):
        if unknown.is_error:
            rule = next(rule for rule in policy.rules if rule.id == unknown.caution.rule)
            raise InvalidPolicy(
                f'rule "{rule.id}": {unknown.caution.message}', file=rule.file, line=rule.line
            )


def _is_about(rule: Rule, tool: ToolArguments) -> bool:
    return (
        rule.names_one_tool
        and rule.tool == tool.name
        and name_matches(rule.source, tool.source)
        and rule.place in (None, tool.place)
        # What a provider runs takes its arguments from a model that never saw a schema of ours.
        and tool.place != "provider"
    )


def _unknown_argument(rule: Rule, pointer: str, tool: ToolArguments) -> UnknownArgument | None:
    stop = tool.names.first_unknown(segments(pointer))
    if stop is None:
        return None
    similar = similar_name(stop.name, stop.known)
    hint = f"; did you mean {similar!r}?" if similar is not None else ""
    message = f"{tool.name!r} has no argument at {pointer}{hint}"
    is_error = stop.is_certain and rule.effect != "allow"
    return UnknownArgument(tool.name, Caution(rule.id, message, rule.line), is_error)


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
