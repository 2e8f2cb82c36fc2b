"""Run the client scenarios of the official suite against Toolcrib's MCP client, one at a time:
`python -m tests.conformance.client_suite RESULTS [SCENARIO ...]`.

The suite itself starts the clients of a revision all at once, which times out on a small machine.
Fails when a scenario fails that a revision requires.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import yaml

from tests.conformance.verdicts import REQUIREMENTS
from tests.node.peers import MODULES, ROOT

REVISIONS = ("2025-11-25", "2026-07-28")
NOT_SCORED = ("json-schema-2020-12-preservation",)
"""Run too, though no revision requires it."""
SECONDS = 120
_PASSED = re.compile(r"Passed: (\d+)/(\d+), (\d+) failed")


@dataclass(frozen=True)
class ClientVerdict:
    """What came of one scenario at one revision."""

    revision: str
    scenario: str
    passed: int
    checks: int
    is_good: bool


def scenarios(revision: str) -> list[str]:
    """The client scenarios of a revision."""
    required = yaml.safe_load((REQUIREMENTS / f"{revision}.yaml").read_text())["client"]
    return [*required, *NOT_SCORED]


def program_of(scenario: str) -> str | None:
    """The client that plays a scenario; None when there is none."""
    name = "client" if scenario.startswith("auth/") else "client_scenarios"
    module = f"tests.conformance.{name}"
    return module if find_spec(module) is not None else None


def play(revision: str, scenario: str, results: Path) -> ClientVerdict:
    """Run one scenario."""
    suite = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    command = [str(MODULES / ".bin" / "node"), str(suite), "client", "--scenario", scenario]
    command += ["--command", f"{sys.executable} -m {program_of(scenario)}"]
    command += ["--spec-version", revision, "--timeout", str(SECONDS * 1_000)]
    done = subprocess.run(
        [*command, "--output-dir", str(results / revision)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    log = results / revision / f"{scenario.replace('/', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(output)
    match = _PASSED.search(output)
    passed, checks = (int(match[1]), int(match[2])) if match else (0, 0)
    return ClientVerdict(revision, scenario, passed, checks, done.returncode == 0 and passed > 0)


def run(results: Path, chosen: Collection[str] = ()) -> list[ClientVerdict]:
    """Run the scenarios of both revisions, or those that were chosen."""
    verdicts: list[ClientVerdict] = []
    for revision in REVISIONS:
        for scenario in scenarios(revision):
            if (not chosen or scenario in chosen) and program_of(scenario) is not None:
                verdict = play(revision, scenario, results)
                mark = "✓" if verdict.is_good else "✗"
                print(
                    f"{mark} {revision} {scenario}: {verdict.passed}/{verdict.checks}", flush=True
                )
                verdicts.append(verdict)
    return verdicts


def main(results: str, *chosen: str) -> int:
    verdicts = run(Path(results), chosen)
    for revision in REVISIONS:
        ours = [each for each in verdicts if each.revision == revision]
        checks = f"{sum(each.passed for each in ours)}/{sum(each.checks for each in ours)} checks"
        print(f"{revision}: {sum(each.is_good for each in ours)}/{len(ours)} scenarios, {checks}")
    failed = [each for each in verdicts if not each.is_good and each.scenario not in NOT_SCORED]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
