"""Importing the package is cheap, and everything it promises is there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import toolcrib

HEAVY = {
    "anthropic",
    "anyio",
    "fastapi",
    "google",
    "httpx",
    "jsonschema_rs",
    "mcp",
    "openai",
    "opentelemetry",
    "pydantic",
    "pydantic_ai",
    "rich",
    "sqlite3",
    "starlette",
    "typer",
    "uvicorn",
    "websockets",
    "yaml",
}
SDKS_AND_FRAMEWORKS = HEAVY - {"pydantic", "sqlite3"}


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after running `code`."""
    show = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    # Measured processes load the coverage tool, and that loads modules of its own.
    unmeasured = {key: text for key, text in os.environ.items() if not key.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {show}"],
        capture_output=True,
        text=True,
        check=True,
        env=unmeasured,
    )
    return set(done.stdout.split())


def test_import_loads_nothing_heavy() -> None:
    """`import toolcrib` loads no provider SDK, no web framework, not even pydantic."""
    assert modules_after("import toolcrib") & HEAVY == set()


@pytest.mark.wire
def test_running_local_tools_loads_no_sdk_and_no_framework() -> None:
    """What a local tool needs loads no provider SDK and no web framework."""
    loaded = modules_after(
        "from toolcrib import Executor, Policy, Session, Tool, tool; "
        "Executor(Session(), [Tool(name='a', description='A.', handler=lambda: None)])"
    )

    assert "pydantic" in loaded
    assert loaded & SDKS_AND_FRAMEWORKS == set()


@pytest.mark.parametrize("name", toolcrib.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Each name in `__all__` can be imported from the package."""
    assert getattr(toolcrib, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails like a missing attribute of any module."""
    with pytest.raises(AttributeError, match="no attribute 'Exekutor'"):
        getattr(toolcrib, "Exekutor")  # noqa: B009
