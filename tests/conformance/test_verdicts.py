"""The verdicts on a run of the conformance suite count what failed, and what was never run."""

import json
from pathlib import Path

from tests.conformance.verdicts import required, verdicts
from tests.node.peers import needs_node


def written(results: Path, scenario: str, *statuses: str) -> None:
    folder = results / f"server-{scenario}-2026-11-16T12-30-00-000Z"
    folder.mkdir()
    checks = [{"id": f"check-{each}", "status": status} for each, status in enumerate(statuses)]
    (folder / "checks.json").write_text(json.dumps(checks))


def test_a_scenario_is_good_when_it_passed_something_and_failed_nothing(tmp_path: Path) -> None:
    """One failed check condemns its scenario, and one that only skipped has shown nothing."""
    written(tmp_path, "json-schema-2020-12", "SUCCESS", "WARNING", "INFO")
    written(tmp_path, "ping", "SUCCESS", "FAILURE")
    written(tmp_path, "tools-list", "SKIPPED")

    found = verdicts(tmp_path)

    assert {name: each.is_good for name, each in found.items()} == {
        "json-schema-2020-12": True,
        "ping": False,
        "tools-list": False,
    }
    assert found["ping"].failed == ("check-1: None",)
    assert found["json-schema-2020-12"].warned == ("check-1: None",)


@needs_node
def test_what_a_revision_requires_is_read_from_the_suite() -> None:
    """The suite says what has to pass, and not the results: what did not run is not forgotten."""
    assert len(required("2025-11-25")) == 30
    assert len(required("2026-07-28")) == 37
