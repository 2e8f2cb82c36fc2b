"""What every test shares: how Hypothesis runs, and where a test may put its database."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.postgres import PostgresServer, remove_postgres, temporary_postgres

# A busy machine draws slowly, which says nothing about the code.
_ANY_SPEED = [HealthCheck.too_slow]
# The CI must fail on the change that broke something, so it draws the same examples every time.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    print_blob=True,
    suppress_health_check=_ANY_SPEED,
)
settings.register_profile("local", deadline=None, suppress_health_check=_ANY_SPEED)
# The mutation run calls pytest several times in one process, each time with new test classes.
settings.register_profile(
    "mutants",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.differing_executors, *_ANY_SPEED],
)
_is_mutated = "MUTANT_UNDER_TEST" in os.environ
settings.load_profile("mutants" if _is_mutated else "ci" if os.environ.get("CI") else "local")

# Folders and files whose tests speak through real SDKs, servers or agents: thousands of them, some
# tens of milliseconds each, which is more than the inner loop can wait for. Tests elsewhere that
# start processes carry the mark themselves.
_WIRE = (
    "adapters/openai",
    "adapters/pydantic_ai",
    "adapters/test_stream_equality.py",
    "client",
    "conformance",
    "embedded",
    "mcp_client",
    "toolsets/agent_bridge",
    "sandbox",
    "telemetry/test_pydantic_ai.py",
    "transports",
)
# Files that play whole recordings, start processes for every test, or draw many examples. What they
# reach is reached by faster ones too, so that they need not run under coverage.
_SLOW = (
    "adapters/openai/test_elsewhere.py",
    "adapters/openai/test_mangled.py",
    "adapters/openai/test_replay.py",
    "adapters/pydantic_ai/codecs/test_fuzz.py",
    "adapters/pydantic_ai/codecs/test_parity.py",
    "adapters/pydantic_ai/codecs/test_recordings.py",
    "adapters/pydantic_ai/codecs/test_wire.py",
    "adapters/pydantic_ai/test_elsewhere.py",
    "adapters/pydantic_ai/test_replay.py",
    "adapters/pydantic_ai/test_replay_across.py",
    "adapters/test_stream_equality.py",
    "approval/test_tool_identity.py",
    "conformance/test_conformance.py",
    "conformance/test_inspector.py",
    "conformance/test_sign_in.py",
    "toolsets/agent_bridge/test_resuming.py",
    "transports/http/frontends/test_ag_ui.py",
    "transports/http/frontends/test_page.py",
    "transports/http/frontends/test_ui_stream.py",
    "transports/mcp/test_stdio.py",
    "transports/test_equality.py",
    "transports/test_stdio.py",
)
_TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Start every child process with the default SIGINT and untraced, and check the lists above.

    A shell starts background jobs with SIGINT ignored, and children inherit that: `toolcrib` would
    rightly ignore the Ctrl-C that tests send to it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The workers of a run are traced for coverage. The programs that tests start are not: tracing
    # triples the time of each, and what they reach is reached in the tests' own process too.
    if os.environ.get("PYTEST_XDIST_WORKER") or not config.getoption("numprocesses", None):
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    # What has moved would lose its marks without a word.
    if missing := [name for name in (*_WIRE, *_SLOW) if not (_TESTS / name).exists()]:
        raise pytest.UsageError(f"tests/conftest.py names tests that do not exist: {missing}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import them for a run that leaves out all their tests: the SDKs alone take seconds."""
    expression: str = config.option.markexpr
    if "not browser" in expression and collection_path == _TESTS / "console":
        return True
    is_left_out = "not wire" in expression and "not slow" in expression
    return True if is_left_out and _is_wire(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of those folders and files."""
    for item in items:
        if _is_wire(item.path):
            is_slow = item.path.relative_to(_TESTS).as_posix() in _SLOW
            item.add_marker(pytest.mark.slow if is_slow else pytest.mark.wire)


def _is_wire(path: Path) -> bool:
    return path.is_relative_to(_TESTS) and f"{path.relative_to(_TESTS)}/".startswith(
        tuple(f"{folder}/" for folder in _WIRE)
    )


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """A path for a SQLite file that does not exist yet."""
    return tmp_path / "toolcrib.sqlite3"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, one for each worker of the run."""
    server = temporary_postgres()
    yield server
    remove_postgres(server)


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """The URL of an empty database."""
    return postgres.database()
