"""One line of a policy: which calls it speaks of, and what it says about them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.approval.caller import NOBODY, Caller
from toolcrib.approval.globs import Stance, has_wildcard, name_matches
from toolcrib.approval.pattern import Patterns, checked_patterns, first_mismatch
from toolcrib.approval.quorum import Quorum
from toolcrib.errors import InvalidPolicy
from toolcrib.tools.argument_names import ArgumentNames
from toolcrib.tools.identity import Place, ToolRef

Effect = Literal["allow", "ask", "deny"]

RESERVED_IDS = frozenset(
    {
        "approver",
        "default",
        "in_doubt",
        "need_user_approve_tools",
        "requires_approval",
        "tool",
        "unanswered",
        "unmatched",
    }
)
"""Records use these ids when no rule decided, so no rule may have one of them."""

_TOOL_GLOB = re.compile(r"[A-Za-z0-9_.*?-]{1,128}")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a policy judges: a tool and the frozen arguments of a call."""

    tool: ToolRef
    arguments: Mapping[str, Any]
    is_read_only: bool = False
    requires_approval: bool = False
    kind: str | None = None
    """The hosted kind of the tool, if it has one."""
    provider: str | None = None
    """The provider of that kind."""
    names: ArgumentNames | None = None
    """The other names of the tool's arguments, where there are any."""
    caller: Caller = NOBODY
    """Who asks for the call."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a policy. `rule` is the id of the deciding rule, or a reserved id."""

    effect: Effect
    rule: str
    reason: str
    deadline_seconds: float | None = None
    approvers: tuple[Quorum, ...] = ()
    """Who has to approve, of an `ask`; empty means one approver, whoever it is."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A call that meets every condition gets `effect`. A rule without an `id` is numbered by its
    policy.

    `principal` and `group` are globs, of which one has to match: the name of who asks, or one of
    their groups. Where nobody is named, an allow rule with such a condition never matches, and a
    deny or ask rule matches by `*` alone.
    """

    effect: Effect
    tool: str = "*"
    source: str = "*"
    place: Place | None = None
    kind: str = field(default="*", kw_only=True)
    provider: str = field(default="*", kw_only=True)
    principal: tuple[str, ...] = field(default=(), kw_only=True)
    group: tuple[str, ...] = field(default=(), kw_only=True)
    approvers: Quorum | None = field(default=None, kw_only=True)
    arguments: Patterns = field(default_factory=dict[str, Any])
    id: str = ""
    reason: str = ""
    deadline_seconds: float | None = None
    file: str | None = None
    line: int | None = None

    def __post_init__(self) -> None:
        try:
            self._check()
        except InvalidPolicy as error:
            if error.file or not self.file:
                raise
            raise InvalidPolicy(str(error), file=self.file, line=self.line) from None

    def first_miss(self, subject: Subject) -> str | None:
        """Return the first condition that `subject` fails ("tool", "source", "place", "kind",
        "provider", "principal", "group" or the pointer of an argument), or `None` when the rule
        matches.
        """
        if not name_matches(self.tool, subject.tool.name):
            return "tool"
        if not name_matches(self.source, subject.tool.source):
            return "source"
        if self.place not in (None, subject.tool.place):
            return "place"
        if not _is_met(self.kind, subject.kind):
            return "kind"
        if not _is_met(self.provider, subject.provider):
            return "provider"
        caller = subject.caller
        names = () if caller.principal is None else (caller.principal,)
        if not self._speaks_of(self.principal, names):
            return "principal"
        if not self._speaks_of(self.group, caller.groups):
            return "group"
        return first_mismatch(self.arguments, subject.arguments, self._stance, subject.names)

    def _speaks_of(self, globs: tuple[str, ...], names: Collection[str]) -> bool:
        """Whether one of the names meets a condition on who asks."""
        if not globs:
            return True
        # Nobody is let through for a name that is not known, and nobody escapes "everybody".
        if not names:
            return self.effect != "allow" and "*" in globs
        return any(name_matches(glob, name) for glob in globs for name in names)

    @property
    def names_one_tool(self) -> bool:
        """Whether the rule names its tool in full; only such an allow rule lifts the tool's own
        gate.
        """
        return not has_wildcard(self.tool)

    @property
    def _stance(self) -> Stance:
        return "narrow" if self.effect == "allow" else "wide"

    def _check(self) -> None:
        if self.effect not in ("allow", "ask", "deny"):
            raise InvalidPolicy(f"{self.effect!r} is no effect; write allow, ask or deny")
        check_tool_glob(self.tool)
        for name in ("source", "kind", "provider"):
            if not getattr(self, name):
                raise InvalidPolicy(f'an empty {name} matches no tool; write "*" for every {name}')
        for name in ("principal", "group"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, (getattr(self, name),))
            if any(not glob for glob in getattr(self, name)):
                raise InvalidPolicy(f"an empty {name} matches nobody; write a name or leave it out")
        check_id(self.id)
        object.__setattr__(self, "arguments", checked_patterns(self.arguments))
        check_deadline(self.deadline_seconds)
        if self.deadline_seconds is not None and self.effect != "ask":
            raise InvalidPolicy(f"a deadline means nothing for {self.effect}; only ask waits")
        if self.approvers is not None and self.effect != "ask":
            raise InvalidPolicy(f"approvers mean nothing for {self.effect}; only ask needs them")


def _is_met(glob: str, name: str | None) -> bool:
    """Whether a tool meets the condition; a wildcard also covers tools without a kind."""
    return glob == "*" or (name is not None and name_matches(glob, name))


def check_tool_glob(glob: str) -> None:
    """Refuse a glob that can match no tool name."""
    if not _TOOL_GLOB.fullmatch(glob):
        raise InvalidPolicy(
            f"{glob!r} matches no tool: names have letters, digits, _ . - only. "
            "Write the name, with * or ? as wildcards; the source goes under source"
        )


def check_id(rule_id: str) -> None:
    """Refuse a reserved id."""
    if rule_id in RESERVED_IDS:
        raise InvalidPolicy(f"the id {rule_id!r} is taken; write another one")


def check_deadline(seconds: float | None) -> None:
    """Refuse a deadline that is not a finite number of seconds above 0."""
    if seconds is not None and not 0 < seconds < float("inf"):
        raise InvalidPolicy(f"a deadline of {seconds} seconds; write a finite number above 0")
