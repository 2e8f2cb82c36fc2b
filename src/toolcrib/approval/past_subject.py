"""What a policy would say about a past call of which not everything is known any more.

A record has arguments without their secrets, a payload may be deleted, a tool may be gone. A rule
that depends on such a part may or may not speak of the call: both are tried, and a verdict counts
only where all possibilities agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, Literal, cast

from toolcrib.approval.pattern import MISSING, Pattern, matches, places_at, respelt
from toolcrib.approval.policy import Policy, default_verdict
from toolcrib.approval.rule import Rule, Subject, Verdict
from toolcrib.tools.argument_names import ArgumentNames
from toolcrib.tools.secrets import SECRET

Doubt = Literal["redacted", "arguments", "group", "tool"]
"""The part of a past call that is not known: a redacted argument, all of its arguments, the groups
of its principal, or the properties of its tool."""

_TOOL: Final[Doubt] = "tool"
_MOST_DOUBTS: Final = 8
"""With more rules in doubt than so many, the possibilities are not tried."""


@dataclass(frozen=True, slots=True)
class PastSubject:
    """A past call as far as it is known. What is not known of it has any value in `subject`."""

    subject: Subject
    has_arguments: bool = True
    has_groups: bool = True
    has_tool: bool = True
    """Whether it is known if the tool only reads, requires approval, and of which kind it is."""


@dataclass(frozen=True, slots=True)
class PastVerdicts:
    """The verdicts of two policies on a past call. Where they depend on what is not known, `doubt`
    names it and there are none.
    """

    before: Verdict | None = None
    after: Verdict | None = None
    doubt: Doubt | None = None

    @property
    def is_change(self) -> bool:
        """Whether the second policy has another effect on the call, or asks other people."""
        before, after = self.before, self.after
        if before is None or after is None:
            return False
        return _terms(before) != _terms(after)


def compare(before: Policy | None, after: Policy | None, past: PastSubject) -> PastVerdicts:
    """Judge a past call by two policies; None is no policy."""
    return PolicyComparison(before, after).verdicts(past)


_Condition = tuple[object, ...]


class PolicyComparison:
    """Two policies; None is no policy. Rules with the same conditions in both are taken to speak of
    the same calls, so that a doubt about what both say alike is none.
    """

    def __init__(self, before: Policy | None, after: Policy | None) -> None:
        self._policies = before, after
        # Once for many calls: a condition takes longer to spell out than to judge by.
        self._conditions = tuple(
            () if policy is None else tuple(map(_condition, policy.rules))
            for policy in self._policies
        )
        rules = [rule for policy in self._policies if policy for rule in policy.rules]
        conditions = [each for group in self._conditions for each in group]
        self._rules: dict[_Condition, Rule] = dict(zip(conditions, rules, strict=True))

    def verdicts(self, past: PastSubject) -> PastVerdicts:
        """The verdicts of both on one call."""
        is_whole = past.has_arguments and not _hides(past.subject.arguments)
        known: dict[_Condition, bool | Doubt] = {
            condition: _match(rule, past, is_whole=is_whole)
            for condition, rule in self._rules.items()
        }
        doubts: dict[_Condition, Doubt] = {}
        for condition, match in known.items():
            if match is not True and match is not False:
                doubts[condition] = match
        if len(doubts) > _MOST_DOUBTS:
            return PastVerdicts(doubt=next(iter(doubts.values())))
        outcomes: list[tuple[Verdict, Verdict]] = []
        for subject in _possible_subjects(past):
            for choices in product((False, True), repeat=len(doubts)):
                truth: dict[_Condition, bool | Doubt] = dict(known)
                truth.update(zip(doubts, choices, strict=True))
                outcomes.append((self._judge(0, subject, truth), self._judge(1, subject, truth)))
        changes = {(_terms(old), _terms(new)) for old, new in outcomes}
        if len(changes) == 1 or all(old == new for old, new in changes):
            return PastVerdicts(*outcomes[0])
        return PastVerdicts(doubt=next(iter((*doubts.values(), _TOOL))))

    def _judge(
        self, index: int, subject: Subject, truth: Mapping[_Condition, bool | Doubt]
    ) -> Verdict:
        """The verdict of a policy if exactly the conditions are met that `truth` says."""
        policy = self._policies[index]
        if policy is None:
            return default_verdict(subject)
        pairs = zip(policy.rules, self._conditions[index], strict=True)
        matched = [rule for rule, condition in pairs if truth[condition] is True]
        return policy.conclude(matched, subject)


def _terms(verdict: Verdict) -> tuple[object, ...]:
    return verdict.effect, frozenset(verdict.approvers), verdict.deadline_seconds


def _possible_subjects(past: PastSubject) -> Iterator[Subject]:
    if past.has_tool:
        yield past.subject
        return
    for is_read_only, requires_approval in product((False, True), repeat=2):
        yield replace(past.subject, is_read_only=is_read_only, requires_approval=requires_approval)


_OTHER_CONDITIONS: Final = ("tool", "source", "place", "kind", "provider", "principal", "group")


def _match(rule: Rule, past: PastSubject, *, is_whole: bool) -> bool | Doubt:
    """Whether a rule speaks of a past call, or what is not known for it. `is_whole` says that its
    arguments are known and hide nothing.
    """
    miss = rule.first_miss(past.subject)
    if miss in ("tool", "source", "place", "principal"):
        return False
    doubt: Doubt | None = None
    if miss in ("kind", "provider") or (not past.has_tool and _asks_kind(rule)):
        if past.has_tool:
            return False
        doubt = "tool"
    elif miss == "group":
        if past.has_groups:
            return False
        doubt = "group"
    if is_whole and (miss is None or miss not in _OTHER_CONDITIONS):
        return (doubt or True) if miss is None else False
    arguments = _match_arguments(rule, past)
    return arguments if arguments is not True else doubt or True


def _match_arguments(rule: Rule, past: PastSubject) -> bool | Doubt:
    if not rule.arguments:
        return True
    if not past.has_arguments:
        return "arguments"
    subject = past.subject
    doubt: Doubt | None = None
    for pointer, pattern in rule.arguments.items():
        known = _match_pattern(rule, pointer, pattern, subject.arguments, subject.names)
        if known is False:
            return False
        if known is None:
            doubt = "redacted"
    return doubt or True


def _asks_kind(rule: Rule) -> bool:
    return rule.kind != "*" or rule.provider != "*"


def _condition(rule: Rule) -> _Condition:
    """What decides whether a rule speaks of a call; an allow reads arguments more narrowly."""
    return (
        rule.effect == "allow",
        *(rule.tool, rule.source, rule.place, rule.kind, rule.provider),
        *(rule.principal, rule.group),
        tuple((pointer, repr(pattern)) for pointer, pattern in sorted(rule.arguments.items())),
    )


def _match_pattern(
    rule: Rule,
    pointer: str,
    pattern: Pattern,
    arguments: Mapping[str, Any],
    names: ArgumentNames | None,
) -> bool | None:
    """Whether redacted arguments match a pattern; None when a hidden value may decide it."""
    if any(_hides_members(value) for value in _on_the_way(pointer, arguments, names)):
        return None
    stance = "narrow" if rule.effect == "allow" else "wide"
    results: list[bool | None] = []
    for value, shape in places_at(pointer, arguments, names):
        if value is MISSING:
            results.append(False)
        elif _hides(value):
            results.append(None)
        else:
            results.append(matches(respelt(pattern, shape, names), value, stance))
    decisive = stance == "wide"
    if decisive in results:
        return decisive
    if None in results:
        return None
    return bool(results) and not decisive


def _on_the_way(
    pointer: str, arguments: Mapping[str, Any], names: ArgumentNames | None
) -> Iterator[object]:
    """The values that a pointer goes through, from the arguments as a whole."""
    parts = pointer.split("/")
    for end in range(1, len(parts)):
        yield from (value for value, _ in places_at("/".join(parts[:end]), arguments, names))


def _hides_members(value: object) -> bool:
    """Whether a member of this value may have been another one: it is hidden, or a key is."""
    if isinstance(value, str):
        return SECRET in value
    if isinstance(value, Mapping):
        return any(SECRET in key for key in cast("Mapping[str, Any]", value))
    return False


def _hides(value: object) -> bool:
    """Whether anything in a value is hidden."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return _hides_members(members) or any(_hides(member) for member in members.values())
    if isinstance(value, list | tuple):
        return any(_hides(element) for element in cast("Sequence[object]", value))
    return isinstance(value, str) and SECRET in value
