"""What the conformance suite wrote down, against what a revision of the protocol requires."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from tests.node.peers import MODULES

_DIRECTORY = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z")
REQUIREMENTS = MODULES / "@modelcontextprotocol" / "conformance" / "requirements"


@dataclass(frozen=True)
class Verdict:
    """What came of one scenario."""

    passed: int
    failed: tuple[str, ...]
    warned: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether it was run and nothing failed. One that checked nothing has shown nothing."""
        return self.passed > 0 and not self.failed


def required(revision: str) -> frozenset[str]:
    """The scenarios that a server of that revision has to pass."""
    return frozenset(yaml.safe_load((REQUIREMENTS / f"{revision}.yaml").read_text())["server"])


def verdicts(results: Path) -> dict[str, Verdict]:
    """The verdict on each scenario that was run, by its name."""
    found = sorted(results.glob("server-*/checks.json"))
    return {_scenario(each): _verdict(json.loads(each.read_text())) for each in found}


def _scenario(checks: Path) -> str:
    match = _DIRECTORY.fullmatch(checks.parent.name)
    assert match is not None, f"{checks.parent} is not named as the suite names them"
    return match[1]


def _verdict(checks: list[dict[str, Any]]) -> Verdict:
    def those(status: str) -> tuple[str, ...]:
        return tuple(
            f"{each['id']}: {cast('str | None', each.get('errorMessage'))}"
            for each in checks
            if each["status"] == status
        )

    return Verdict(len(those("SUCCESS")), those("FAILURE"), those("WARNING"))
