"""Policies: deny beats ask beats allow. `explain` says how every rule took part, without showing
the value of an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from toolcrib.approval.duration import duration_text
from toolcrib.approval.pattern import MISSING, resolve
from toolcrib.approval.pattern_json import pattern_text
from toolcrib.approval.quorum import quorum_text
from toolcrib.approval.rule import Effect, Rule, Subject, Verdict, check_deadline
from toolcrib.errors import InvalidPolicy


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The part of one rule in a verdict; `why_not` names the first condition that failed."""

    rule: str
    effect: Effect
    is_match: bool
    why_not: str | None = None
    file: str | None = None
    line: int | None = None

    def text(self) -> str:
        """The finding on one line."""
        where = f" ({self.file}:{self.line})" if self.file and self.line else ""
        head = f"{self.effect} {self.rule}{where}"
        return f"matches   {head}" if self.is_match else f"no match  {head}: {self.why_not}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict about a call of `tool` (`source/name`), with a finding for every rule."""

    tool: str
    verdict: Verdict
    findings: tuple[RuleFinding, ...]

    def text(self) -> str:
        """Return the explanation as text, one finding per line."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        verdict = self.verdict
        yield f"{verdict.effect}: {self.tool}"
        yield f"decided by: {verdict.rule}"
        yield f"because: {verdict.reason}"
        if verdict.approvers:
            yield f"approvers: {' and '.join(map(quorum_text, verdict.approvers))}"
        if verdict.deadline_seconds is not None:
            yield f"expires after: {duration_text(verdict.deadline_seconds)}"
        for finding in self.findings:
            yield f"  {finding.text()}"


def find(rule: Rule, subject: Subject) -> RuleFinding:
    """Return how `rule` applies to `subject`."""
    miss = rule.first_miss(subject)
    why_not = None if miss is None else _why_not(rule, subject, miss)
    return RuleFinding(rule.id, rule.effect, miss is None, why_not, rule.file, rule.line)


def _why_not(rule: Rule, subject: Subject, miss: str) -> str:
    tool = subject.tool
    match miss:
        case "tool":
            return f"the tool is {tool.name}, not {rule.tool}"
        case "source":
            return f"the source is {tool.source}, not {rule.source}"
        case "place":
            return f"the place is {tool.place}, not {rule.place}"
        case "kind":
            return f"the kind is {subject.kind or 'none'}, not {rule.kind}"
        case "provider":
            return f"the provider is {subject.provider or 'none'}, not {rule.provider}"
        case "principal":
            asker = subject.caller.principal or "not named"
            return f"the principal is {asker}, not {' or '.join(rule.principal)}"
        case "group":
            groups = ", ".join(sorted(subject.caller.groups)) or "none"
            return f"the groups are {groups}, not {' or '.join(rule.group)}"
        case pointer:
            return _argument_miss(rule, subject, pointer)


def _argument_miss(rule: Rule, subject: Subject, pointer: str) -> str:
    values = resolve(pointer, subject.arguments, subject.names)
    if not values or MISSING in values:
        return f"there is no argument at {pointer}"
    # The value itself may be a secret, so only the pattern is shown.
    return f"the argument at {pointer} is not {pattern_text(rule.arguments[pointer])}"


__all__ = [
    "Effect",
    "Explanation",
    "Policy",
    "Rule",
    "Subject",
    "Unmatched",
    "Verdict",
    "default_verdict",
]

Unmatched = Literal["risk", "allow", "ask", "deny"]
"""What happens to a call that no rule matches. `risk`: tools that only read run, the rest need an
approval."""

_STRENGTH: dict[Effect, int] = {"deny": 0, "ask": 1, "allow": 2}
_GATE = "The tool requires approval."


@dataclass(frozen=True, slots=True)
class PolicyText:
    """The text that a policy was read from, the path of its file or the name of its origin, and
    when that was.
    """

    text: str
    file: str
    read_at: float


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules, all of which count, in any order. Only an allow rule that names a tool in full lifts
    the tool's own gate.
    """

    rules: tuple[Rule, ...] = ()
    unmatched: Unmatched = "risk"
    deadline_seconds: float | None = None
    text: PolicyText | None = field(default=None, compare=False, repr=False)
    """What it was read from, if it was read."""

    def __post_init__(self) -> None:
        if self.unmatched not in ("risk", "allow", "ask", "deny"):
            raise InvalidPolicy(f"unmatched is {self.unmatched!r}; write risk, allow, ask or deny")
        check_deadline(self.deadline_seconds)
        object.__setattr__(self, "rules", _numbered(self.rules))

    def judge(self, subject: Subject) -> Verdict:
        """Return the verdict about one call."""
        return self.conclude(
            [rule for rule in self.rules if rule.first_miss(subject) is None], subject
        )

    def explain(self, subject: Subject) -> Explanation:
        """Return the verdict about one call, with the part of every rule in it."""
        findings = tuple(find(rule, subject) for rule in self.rules)
        return Explanation(subject.tool.id, self.judge(subject), findings)

    def conclude(self, matched: Sequence[Rule], subject: Subject) -> Verdict:
        """Return the verdict about a call that exactly the rules in `matched` speak of."""
        if not matched:
            return self._with_terms(_without_rule(self.unmatched, subject), matched)
        rule = min(
            matched,
            key=lambda candidate: (_STRENGTH[candidate.effect], not candidate.names_one_tool),
        )
        if rule.effect == "allow" and subject.requires_approval and not rule.names_one_tool:
            return self._with_terms(_shadowed(rule), matched)
        return self._with_terms(Verdict(rule.effect, rule.id, _reason(rule)), matched)

    def _with_terms(self, verdict: Verdict, matched: Sequence[Rule]) -> Verdict:
        if verdict.effect != "ask":
            return verdict
        deadlines = [rule.deadline_seconds for rule in matched if rule.deadline_seconds is not None]
        # Each rule that asks is obeyed: who has to approve by one of them is not spared by another.
        approvers = dict.fromkeys(rule.approvers for rule in matched if rule.approvers is not None)
        return replace(
            verdict,
            deadline_seconds=min(deadlines, default=self.deadline_seconds),
            approvers=tuple(approvers),
        )


def default_verdict(subject: Subject) -> Verdict:
    """Return the verdict without a policy: only the tool's own gate asks."""
    if subject.requires_approval:
        return Verdict("ask", "requires_approval", _GATE)
    return Verdict("allow", "default", "There is no policy, and the tool requires no approval.")


def _without_rule(unmatched: Unmatched, subject: Subject) -> Verdict:
    match unmatched:
        case "deny":
            return Verdict("deny", "unmatched", "No rule of the policy allows this call.")
        case "ask":
            return Verdict("ask", "unmatched", "No rule of the policy allows this call.")
        case "allow" | "risk" if subject.requires_approval:
            return Verdict("ask", "requires_approval", _GATE)
        case "allow":
            return Verdict("allow", "unmatched", "The policy allows what no rule matches.")
        case "risk" if subject.is_read_only:
            return Verdict("allow", "unmatched", "No rule matches, and the tool only reads.")
        case "risk":
            return Verdict("ask", "unmatched", "No rule matches, and the tool may change things.")
    assert_never(unmatched)


def _shadowed(rule: Rule) -> Verdict:
    return Verdict(
        "ask",
        "requires_approval",
        f'{_GATE} Rule "{rule.id}" allows it by a wildcard, which does not lift that; '
        "a rule that names the tool does.",
    )


def _reason(rule: Rule) -> str:
    return (
        rule.reason
        or {
            "allow": f'Rule "{rule.id}" allows this call.',
            "ask": f'Rule "{rule.id}" asks about this call.',
            "deny": f'Rule "{rule.id}" denies this call.',
        }[rule.effect]
    )


def _numbered(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    numbered = tuple(
        rule if rule.id else replace(rule, id=f"rule {number}")
        for number, rule in enumerate(rules, start=1)
    )
    seen: set[str] = set()
    for rule in numbered:
        if rule.id in seen:
            raise InvalidPolicy(
                f"two rules have the id {rule.id!r}; write another one",
                file=rule.file,
                line=rule.line,
            )
        seen.add(rule.id)
    return numbered
