"""Policies in YAML files. Every fault names the file, the line and what to write instead.

The form of the file is published as `policy.schema.json` beside this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast, get_args

from toolcrib.approval.duration import read_duration
from toolcrib.approval.pattern_json import check_key, read_patterns
from toolcrib.approval.policy import Policy, PolicyText, Unmatched
from toolcrib.approval.quorum import Quorum
from toolcrib.approval.rule import Effect, Rule, check_id, check_tool_glob
from toolcrib.errors import InvalidPolicy, InvalidYaml
from toolcrib.file_faults import FileFault
from toolcrib.tools.identity import Place
from toolcrib.yaml_source import Located, read_yaml

_EFFECTS: tuple[Effect, ...] = get_args(Effect)
_FILE_KEYS = ("version", "unmatched", "deadline", "rules")
_CONDITIONS = ("source", "place", "kind", "provider", "principal", "group", "arguments")
_RULE_KEYS = ("id", *_EFFECTS, *_CONDITIONS, "reason", "deadline", "approvers")
_VERSION = 1

Members = Mapping[str, Located]


def load_policy(path: str | PathLike[str]) -> Policy:
    """Read a policy from a file. Raises `InvalidPolicy`, also when the file does not exist."""
    file = fspath(path)
    try:
        text = Path(file).read_text("utf-8-sig")
    except OSError as error:
        raise InvalidPolicy(f"cannot be read: {error.strerror}", file=file) from None
    except UnicodeDecodeError:
        raise InvalidPolicy("is not UTF-8 text; save it as UTF-8", file=file) from None
    return parse_policy(text, file=file)


def parse_policy(text: str, *, file: str = "policy") -> Policy:
    """Read a policy from text; errors and rules name `file` as their origin."""
    try:
        policy = _policy(read_yaml(text), file)
    except InvalidYaml as error:
        raise InvalidPolicy(str(error), file=file, line=error.line) from None
    return replace(policy, text=PolicyText(text, file, time.time()))


def parse_rule(text: str, *, file: str = "rule") -> tuple[Rule, ...]:
    """Read one rule from text, as it stands in a policy with or without its dash. A rule for
    several tools becomes several; without an id it is called "draft rule".
    """
    try:
        document = read_yaml(text)
        if isinstance(document.value, tuple) and len(document.value) == 1:
            document = document.value[0]
        rules = tuple(_rule(document, "draft rule", file))
    except InvalidYaml as error:
        raise InvalidPolicy(str(error), file=file, line=error.line) from None
    return rules


def policy_faults(text: str) -> tuple[FileFault, ...]:
    """Every fault of a policy in the order of its lines, where `parse_policy` raises the first.
    Empty means that it can be used.
    """
    faults: list[FileFault] = []

    def check(read: Callable[[], object]) -> None:
        try:
            read()
        except (InvalidYaml, InvalidPolicy) as error:
            line = error.line or 1
            faults.append(FileFault(line, "", str(error).removeprefix(f"policy:{line}: ")))

    check(lambda: _check_parts(text, check))
    if not faults:
        # What only shows in the whole, such as two rules of one id.
        check(lambda: parse_policy(text))
    return tuple(sorted(faults))


def _check_parts(text: str, check: Callable[[Callable[[], object]], None]) -> None:
    document = read_yaml(text)
    check(lambda: _mapping(document, _FILE_KEYS, "this policy"))
    if not isinstance(document.value, Mapping):
        return
    members = document.value
    check(lambda: _version(members, document.line))
    check(lambda: _choice(members, "unmatched", get_args(Unmatched)))
    check(lambda: _deadline(members))
    rules = members.get("rules", Located((), 1))
    if not isinstance(rules.value, tuple):
        check(lambda: tuple(_rules(members, "policy")))
        return
    for number, rule in enumerate(rules.value, start=1):
        check(lambda rule=rule, number=number: tuple(_rule(rule, f"rule {number}", "policy")))


@contextmanager
def _at_line(line: int) -> Generator[None]:
    """Attribute the faults found inside to this line; `parse_policy` adds the file."""
    try:
        yield
    except InvalidPolicy as error:
        raise InvalidYaml(str(error), line=line) from None


def _policy(document: Located, file: str) -> Policy:
    members = _mapping(document, _FILE_KEYS, "this policy")
    _version(members, document.line)
    return Policy(
        rules=tuple(_rules(members, file)),
        unmatched=cast("Unmatched", _choice(members, "unmatched", get_args(Unmatched)) or "risk"),
        deadline_seconds=_deadline(members),
    )


def _version(members: Members, line: int) -> None:
    with _at_line(line):
        if "version" not in members:
            raise InvalidPolicy(f"the version is missing; write version: {_VERSION}")
    version = members["version"]
    with _at_line(version.line):
        if type(version.value) is not int or version.value != _VERSION:
            raise InvalidPolicy(f"version {version.plain()!r} is unknown; write {_VERSION}")


def _rules(members: Members, file: str) -> Iterator[Rule]:
    rules = members.get("rules", Located((), 1))
    with _at_line(rules.line):
        if not isinstance(rules.value, tuple):
            raise InvalidPolicy('rules is not a list; start each rule with "- "')
    for number, rule in enumerate(rules.value, start=1):
        yield from _rule(rule, f"rule {number}", file)


def _rule(rule: Located, default_id: str, file: str) -> Iterator[Rule]:
    members = _mapping(rule, _RULE_KEYS, "this rule")
    with _at_line(rule.line):
        effect = _effect(members)
    globs = _tool_globs(members[effect])
    rule_id = _id(members) or default_id
    shared: dict[str, Any] = {
        "source": _text(members, "source") or "*",
        "place": _choice(members, "place", get_args(Place)),
        "kind": _text(members, "kind") or "*",
        "provider": _text(members, "provider") or "*",
        "principal": _names(members, "principal"),
        "group": _names(members, "group"),
        "arguments": _arguments(members),
        "approvers": _approvers(members, effect),
        "reason": _text(members, "reason") or "",
        "deadline_seconds": _deadline(members, effect),
        "file": file,
        "line": rule.line,
    }
    for glob in globs:
        # A rule for several tools becomes several rules, each with an id of its own.
        suffix = f": {glob}" if len(globs) > 1 else ""
        yield Rule(effect, glob, id=rule_id + suffix, **shared)


def _effect(members: Members) -> Effect:
    effects: list[Effect] = [effect for effect in _EFFECTS if effect in members]
    if len(effects) != 1:
        listed = " and ".join(effects) or "none"
        raise InvalidPolicy(f"a rule has one of allow, ask, deny; this one has {listed}")
    return effects[0]


def _tool_globs(tools: Located) -> tuple[str, ...]:
    items = tools.value if isinstance(tools.value, tuple) else (tools,)
    globs: list[str] = []
    with _at_line(tools.line):
        if not items:
            raise InvalidPolicy('the list of tools is empty; write names, or "*" for all')
    for item in items:
        with _at_line(item.line):
            if not isinstance(item.value, str):
                raise InvalidPolicy("a tool is a name in text, with * or ? as wildcards")
            check_tool_glob(item.value)
            if item.value in globs:
                raise InvalidPolicy(f"duplicate tool {item.value!r}; remove one of the two")
            globs.append(item.value)
    return tuple(globs)


def _arguments(members: Members) -> Mapping[str, Any]:
    if "arguments" not in members:
        return {}
    patterns: dict[str, Any] = {}
    for pointer, pattern in _mapping(members["arguments"], None, "arguments").items():
        with _at_line(pattern.line):
            if not pointer:
                raise InvalidPolicy('an empty pointer; write "/" and the name of the argument')
            patterns |= read_patterns({pointer: pattern.plain()})
    return patterns


def _names(members: Members, key: str) -> tuple[str, ...]:
    """A name or a list of names, with wildcards."""
    if key not in members:
        return ()
    node = members[key]
    items = node.value if isinstance(node.value, tuple) else (node,)
    with _at_line(node.line):
        if not items:
            raise InvalidPolicy(f"the list of {key} is empty; write names, or leave it out")
    names: list[str] = []
    for item in items:
        with _at_line(item.line):
            if not isinstance(item.value, str) or not item.value:
                raise InvalidPolicy(f"{key} is not text; write a name, in quotes if need be")
            names.append(item.value)
    return tuple(names)


def _approvers(members: Members, effect: Effect) -> Quorum | None:
    """`2`, `finance`, `[finance, board]` or `{groups: [finance], count: 2}`."""
    if "approvers" not in members:
        return None
    node = members["approvers"]
    with _at_line(node.line):
        if effect != "ask":
            raise InvalidPolicy(f"approvers mean nothing for {effect}; remove them")
        if isinstance(node.value, Mapping):
            terms = _mapping(node, ("groups", "count"), "approvers")
            groups = _names(terms, "groups")
            return Quorum(_count(terms["count"]) if "count" in terms else 1, groups)
        if isinstance(node.value, str | tuple):
            return Quorum(groups=_names(members, "approvers"))
        return Quorum(_count(node))


def _count(node: Located) -> int:
    with _at_line(node.line):
        if type(node.value) is not int:
            raise InvalidPolicy(
                "approvers are a number of people, names of groups, or {groups: [...], count: 2}"
            )
    return node.value


def _deadline(members: Members, effect: Effect = "ask") -> float | None:
    if "deadline" not in members:
        return None
    with _at_line(members["deadline"].line):
        if effect != "ask":
            raise InvalidPolicy(f"a deadline means nothing for {effect}; remove it, only ask waits")
        return read_duration(members["deadline"].plain())


def _id(members: Members) -> str | None:
    rule_id = _text(members, "id")
    if rule_id is not None:
        with _at_line(members["id"].line):
            check_id(rule_id)
    return rule_id


def _text(members: Members, key: str) -> str | None:
    if key not in members:
        return None
    value = members[key].value
    with _at_line(members[key].line):
        if not isinstance(value, str) or not value:
            raise InvalidPolicy(f"{key} is not text; write some, in quotes if need be")
    return value


def _choice(members: Members, key: str, choices: tuple[str, ...]) -> str | None:
    if key not in members:
        return None
    value = members[key].plain()
    with _at_line(members[key].line):
        if value not in choices:
            raise InvalidPolicy(f"{key} is {value!r}; write one of {', '.join(choices)}")
    return value


def _mapping(node: Located, known: tuple[str, ...] | None, owner: str) -> Members:
    with _at_line(node.line):
        if not isinstance(node.value, Mapping):
            raise InvalidPolicy(f"{owner} is not written as lines of key: value")
    members = node.value
    for key, member in members.items():
        with _at_line(member.line):
            if known is not None:
                check_key(key, known)
    return members
