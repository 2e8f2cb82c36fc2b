"""Why a policy decided as it did, rule by rule, without showing any argument's value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolcrib.approval.duration import duration_text
from toolcrib.approval.pattern_json import pattern_text
from toolcrib.approval.pointer import MISSING, resolve
from toolcrib.approval.rule import Effect, Rule, Subject, Verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """How one rule took part; `why_not` names the first condition that failed."""

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
    """A verdict about a call of `tool` (`source/name`) and every rule's part in it."""

    tool: str
    verdict: Verdict
    findings: tuple[Finding, ...]

    def text(self) -> str:
        """The explanation as lines to read."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        verdict = self.verdict
        yield f"{verdict.effect}: {self.tool}"
        yield f"decided by: {verdict.rule}"
        yield f"because: {verdict.reason}"
        if verdict.deadline_seconds is not None:
            yield f"expires after: {duration_text(verdict.deadline_seconds)}"
        for finding in self.findings:
            yield f"  {finding.text()}"


def find(rule: Rule, subject: Subject) -> Finding:
    """How `rule` takes part in judging `subject`."""
    miss = rule.first_miss(subject)
    why_not = None if miss is None else _why_not(rule, subject, miss)
    return Finding(rule.id, rule.effect, miss is None, why_not, rule.file, rule.line)


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
        case pointer:
            return _argument_miss(rule, subject, pointer)


def _argument_miss(rule: Rule, subject: Subject, pointer: str) -> str:
    found = resolve(pointer, subject.arguments)
    if not found or MISSING in found:
        return f"there is no argument at {pointer}"
    # The value itself may be a secret, so only the pattern is shown.
    return f"the argument at {pointer} is not {pattern_text(rule.arguments[pointer])}"
