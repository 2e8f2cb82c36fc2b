"""What may run, what must be asked, what may not: deny beats ask beats allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from toolcrib.approval.explain import Explanation, find
from toolcrib.approval.rule import Effect, Rule, Subject, Verdict, check_deadline
from toolcrib.errors import InvalidPolicy

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
"""What happens to a call that no rule matches. `risk`: run what only reads, ask about the rest."""

_STRENGTH: dict[Effect, int] = {"deny": 0, "ask": 1, "allow": 2}
_GATE = "The tool requires approval."


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules that all count, in any order. A tool's own gate is lifted only by an allow rule that
    names the tool in full.
    """

    rules: tuple[Rule, ...] = ()
    unmatched: Unmatched = "risk"
    deadline_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.unmatched not in ("risk", "allow", "ask", "deny"):
            raise InvalidPolicy(f"unmatched is {self.unmatched!r}; write risk, allow, ask or deny")
        check_deadline(self.deadline_seconds)
        object.__setattr__(self, "rules", _numbered(self.rules))

    def judge(self, subject: Subject) -> Verdict:
        """Decide about one call."""
        return self._conclude(
            [rule for rule in self.rules if rule.first_miss(subject) is None], subject
        )

    def explain(self, subject: Subject) -> Explanation:
        """Decide about one call and say how every rule took part."""
        findings = tuple(find(rule, subject) for rule in self.rules)
        return Explanation(subject.tool.id, self.judge(subject), findings)

    def _conclude(self, matched: Sequence[Rule], subject: Subject) -> Verdict:
        if not matched:
            return self._with_deadline(_without_rule(self.unmatched, subject), matched)
        rule = min(matched, key=lambda each: (_STRENGTH[each.effect], not each.names_one_tool))
        if rule.effect == "allow" and subject.requires_approval and not rule.names_one_tool:
            return self._with_deadline(_shadowed(rule), matched)
        return self._with_deadline(Verdict(rule.effect, rule.id, _reason(rule)), matched)

    def _with_deadline(self, verdict: Verdict, matched: Sequence[Rule]) -> Verdict:
        if verdict.effect != "ask":
            return verdict
        given = [rule.deadline_seconds for rule in matched if rule.deadline_seconds is not None]
        return replace(verdict, deadline_seconds=min(given, default=self.deadline_seconds))


def default_verdict(subject: Subject) -> Verdict:
    """What holds where there is no policy: only the tool's own gate asks."""
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
