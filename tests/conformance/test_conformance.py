"""A server made with Toolcrib passes what the official conformance suite requires of servers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conformance.fixture_client_requests import ASKING_TOOLS
from tests.conformance.fixture_tools import PLAIN_TOOLS
from tests.conformance.verdicts import required, verdicts
from tests.node.peers import ROOT, needs_node
from toolcrib.ledger.events import ToolInvoked
from toolcrib.store.sqlite import SqliteStore
from toolcrib.store.store import every

pytestmark = needs_node
REVISIONS = ("2025-11-25", "2026-07-28")
NOT_SCORED = {
    "2025-11-25": {"json-schema-2020-12", "server-session-lifecycle"},
    "2026-07-28": {
        "http-custom-header-server-validation",
        "http-header-validation",
        "json-schema-2020-12",
    },
}
"""What passes though the suite does not count it. The rest is the tasks extension, and streams that
a client resumes; neither is served.
"""
NEVER_CALLED = {"json_schema_2020_12_tool"}
"""Of this one the suite only reads the schema."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one run of the whole suite has left its results."""
    results = tmp_path_factory.mktemp("conformance") / "results"
    ran = subprocess.run(
        [ROOT / "scripts" / "conformance.sh", results], cwd=ROOT, capture_output=True, text=True
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    return results


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_required_scenario_passes(revision: str, results: Path) -> None:
    """Both eras of the protocol are served as their specifications say, by one server."""
    found = verdicts(results / revision)

    assert {name for name in required(revision) if name not in found} == set()
    assert {name: found[name] for name in required(revision) if not found[name].is_good} == {}


@pytest.mark.parametrize("revision", REVISIONS)
def test_scenarios_that_do_not_count_pass_too(revision: str, results: Path) -> None:
    """Schemas, headers and the end of a session are as the specifications say."""
    found = verdicts(results / revision)

    assert {name: found[name] for name in NOT_SCORED[revision] if not found[name].is_good} == {}


@pytest.mark.parametrize("revision", REVISIONS)
def test_nothing_required_passes_with_a_warning(revision: str, results: Path) -> None:
    """What the specifications recommend is done too, as far as the suite looks."""
    found = verdicts(results / revision)

    assert {name: found[name].warned for name in required(revision) if found[name].warned} == {}


def test_the_tools_were_called_through_the_runtime(results: Path) -> None:
    """The suite judges Toolcrib, not the SDK alone: every call of it is in a ledger."""
    with SqliteStore(results / "ledgers.sqlite3") as store:
        records = [
            each
            for found in every(lambda cursor: store.sessions(cursor=cursor))
            for each in store.records(found.session_id)
        ]
    ended = [each.event for each in records]
    called = {
        each.name for each in ended if isinstance(each, ToolInvoked) and each.transport == "mcp"
    }

    assert {each.name for each in (*PLAIN_TOOLS, *ASKING_TOOLS)} - called == NEVER_CALLED
