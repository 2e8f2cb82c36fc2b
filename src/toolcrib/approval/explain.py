"""Why a policy decided as it did, rule by rule, without showing any argument's value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolcrib.approval.pattern_json import pattern_text
from toolcrib.approval.pointer import MISSING, resolve
from toolcrib.approval.rule import Rule, Subject, Verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """How one rule took part; `miss` is the first condition that failed, None for a match."""

    rule: Rule
    miss: str | None

    @property
    def is_match(self) -> bool:
        """Whether every condition of the rule holds."""
        return self.miss is None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict and every rule's part in it."""

    subject: Subject
    verdict: Verdict
    findings: tuple[Finding, ...]

    def why_not(self, finding: Finding) -> str | None:
        """Which condition failed, in words; None for a rule that matched."""
        rule, tool = finding.rule, self.subject.tool
        match finding.miss:
            case None:
                return None
            case "tool":
                return f"the tool is {tool.name}, not {rule.tool}"
            case "source":
                return f"the source is {tool.source}, not {rule.source}"
            case "place":
                return f"the place is {tool.place}, not {rule.place}"
            case pointer:
                return self._argument_miss(rule, pointer)

    def text(self) -> str:
        """The explanation as lines to read."""
        return "\n".join(self._lines())

    def _argument_miss(self, rule: Rule, pointer: str) -> str:
        found = resolve(pointer, self.subject.arguments)
        if not found or MISSING in found:
            return f"there is no argument at {pointer}"
        # The value itself may be a secret, so only the pattern is shown.
        return f"the argument at {pointer} is not {pattern_text(rule.arguments[pointer])}"

    def _lines(self) -> Iterator[str]:
        verdict = self.verdict
        yield f"{verdict.effect}: {self.subject.tool.id}"
        yield f"decided by: {verdict.rule}"
        yield f"because: {verdict.reason}"
        if verdict.effect == "ask" and verdict.deadline_seconds is not None:
            yield f"expires after: {verdict.deadline_seconds:g} seconds"
        for finding in self.findings:
            yield self._line(finding)

    def _line(self, finding: Finding) -> str:
        rule = finding.rule
        where = f" ({rule.file}:{rule.line})" if rule.file and rule.line else ""
        head = f"{rule.effect} {rule.id}{where}"
        if finding.is_match:
            return f"  matches   {head}"
        return f"  no match  {head}: {self.why_not(finding)}"
