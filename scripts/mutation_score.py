"""Reads `mutmut results --all true` and says how many mutants the tests caught.

Usage: mutation_score.py LEAST_PERCENT [PATTERN...] < results
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

# A mutant that makes the tests hang or crash is noticed by whoever runs them.
CAUGHT = frozenset({"killed", "timeout", "segfault", "caught by type check"})
LEFT_OUT = frozenset({"skipped"})
UNKNOWN = frozenset({"not checked", "check was interrupted by user"})


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: str
    status: str


def read_verdicts(lines: Iterable[str], patterns: Sequence[str]) -> list[Verdict]:
    """The verdicts on the mutants that match a pattern, or on all when there is no pattern."""
    verdicts: list[Verdict] = []
    for line in lines:
        mutant, colon, status = line.strip().rpartition(": ")
        if not colon:
            continue
        if not patterns or any(fnmatchcase(mutant, pattern) for pattern in patterns):
            verdicts.append(Verdict(mutant, status))
    return [verdict for verdict in verdicts if verdict.status not in LEFT_OUT]


def report(verdicts: Sequence[Verdict], least: float) -> tuple[str, bool]:
    """What to print, and whether the score is good enough. No verdict is never good enough."""
    unknown = [verdict for verdict in verdicts if verdict.status in UNKNOWN]
    if unknown or not verdicts:
        return f"no score: {len(unknown)} of {len(verdicts)} mutants were not run", False
    missed = [verdict for verdict in verdicts if verdict.status not in CAUGHT]
    caught = len(verdicts) - len(missed)
    score = 100 * caught / len(verdicts)
    lines = [f"{verdict.status}: {verdict.mutant}" for verdict in missed]
    if missed:
        lines.append("see one with: .venv/bin/mutmut show NAME")
    lines.append(f"score {score:.1f}%: {caught} of {len(verdicts)} caught, {least:g}% needed")
    return "\n".join(lines), score >= least


def main(arguments: Sequence[str]) -> int:
    least, *patterns = arguments
    text, is_enough = report(read_verdicts(sys.stdin, patterns), float(least))
    print(text)
    return 0 if is_enough else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
