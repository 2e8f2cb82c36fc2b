"""A server made with Toolcrib passes what the official conformance suite requires of servers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conformance import client_suite
from tests.conformance.fixture_client_requests import ASKING_TOOLS
from tests.conformance.fixture_tasks import TASK_TOOLS
from tests.conformance.fixture_tools import PLAIN_TOOLS
from tests.conformance.verdicts import required, verdicts
from tests.node.peers import ROOT, needs_node
from toolcrib.ledger.events import ToolInvoked
from toolcrib.store.sqlite import SqliteStore
from toolcrib.store.store import every

pytestmark = needs_node
REVISIONS = ("2025-11-25", "2026-07-28")
NOT_SCORED = {
    "2025-11-25": {"json-schema-2020-12", "server-session-lifecycle", "server-sse-polling"},
    "2026-07-28": {
        "http-custom-header-server-validation",
        "http-header-validation",
        "json-schema-2020-12",
        "tasks-capability-negotiation",
        "tasks-dispatch-and-envelope",
        "tasks-lifecycle",
        "tasks-mrtr-composition",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-request-state-removal",
        "tasks-required-task-error",
        "tasks-wire-fields",
    },
}
"""What passes though the suite does not count it. `tasks-status-notifications` checks nothing."""
FIXTURE = re.compile(
    r"Unknown tool: |Tool '\w+' not found|Resource not found|[Pp]rompt|Not testable: |unavailable; "
    r"|There is no resource|Prerequisite failed|failing_job|Expected InputRequiredResult"
)
"""What a check says that misses a tool, a resource or a prompt of the suite's own."""
WITHOUT_FIXTURE = {
    "2025-11-25": {
        "dns-rebinding-protection",
        "logging-set-level",
        "ping",
        "prompts-list",
        "resources-list",
        "server-initialize",
        "server-session-lifecycle",
        "server-sse-multiple-streams",
        "server-sse-polling",
        "tools-list",
    },
    "2026-07-28": {
        "caching",
        "dns-rebinding-protection",
        "http-header-validation",
        "input-required-result-ignore-extra-params",
        "input-required-result-missing-input-response",
        "input-required-result-unsupported-methods",
        "input-required-result-validate-input",
        "prompts-list",
        "resources-list",
        "sep-2164-resource-not-found",
        "server-sse-multiple-streams",
        "tools-list",
    },
}
"""The scenarios that look for nothing of their own."""
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


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_plain_server_fails_only_where_a_fixture_is_missing(revision: str, results: Path) -> None:
    """Nobody has to write anything for the protocol itself: with four tools of one's own, what
    fails is about a tool, a resource or a prompt that the suite looks for by name.
    """
    found = verdicts(results / "plain" / revision)
    good = {name for name, verdict in found.items() if verdict.is_good}
    faults = [fault for verdict in found.values() for fault in verdict.failed]

    assert WITHOUT_FIXTURE[revision] - good == set()
    assert [fault for fault in faults if not FIXTURE.search(fault)] == []


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

    tools = {each.name for each in (*PLAIN_TOOLS, *ASKING_TOOLS, *TASK_TOOLS)}
    assert tools - called == NEVER_CALLED


CLIENT_SCENARIOS = ("sep-2322-client-request-state", "http-custom-headers", "sse-retry")


def test_our_client_passes_scenarios_of_the_suite(tmp_path: Path) -> None:
    """A mounted server is spoken to as the specifications say: headers, questions, broken streams.
    `make conformance` runs all of them.
    """
    played = client_suite.run(tmp_path, CLIENT_SCENARIOS)

    assert {each.scenario for each in played} == set(CLIENT_SCENARIOS)
    assert [each for each in played if not each.is_good] == []
