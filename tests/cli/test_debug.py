"""`--debug`: tracebacks where they help, and nowhere else."""

import asyncio
import logging
import os
from pathlib import Path

import pytest

from tests.cli.command import invoke, run, serving

pytestmark = pytest.mark.usefixtures("folder")

BROKEN = '''
from toolcrib import tool


@tool
def boom(key: str) -> str:
    """Look up a key.

    Args:
        key: The key.
    """
    return {}[key]
'''
CALL = ("tools", "call", "boom", "key=k", "--host-tools-module", "broken_tools")


@pytest.fixture(autouse=True)
def broken_tools(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that raises."""
    (folder / "broken_tools.py").write_text(BROKEN, "utf-8")
    monkeypatch.delenv("TOOLCRIB_DEBUG", raising=False)


def test_newcomers_b_a_tool_that_raised_shows_its_traceback() -> None:
    """Newcomers B: the line of the handler that raised, on stderr beside the failure."""
    done = invoke("--debug", *CALL)

    assert done.exit_code == 1
    assert "broken_tools.py" in done.stderr
    assert "return {}[key]" in done.stderr
    assert "boom failed: tool_error: KeyError: 'k'" in done.stderr
    assert "Traceback" not in done.stdout


def test_the_variable_is_the_flag() -> None:
    """For a command that something else starts."""
    assert "Traceback" in invoke(*CALL, env={"TOOLCRIB_DEBUG": "1"}).stderr


def test_without_it_the_failure_is_a_sentence() -> None:
    """And nothing of a run with --debug stays behind in the process."""
    invoke("--debug", *CALL)
    done = invoke(*CALL)

    assert "Traceback" not in done.stderr
    assert "boom failed: tool_error: KeyError: 'k'" in done.stderr
    assert logging.getLogger("toolcrib").level == logging.NOTSET


def test_the_cause_of_a_refused_command_is_shown(folder: Path) -> None:
    """What a sentence was made of: the module's own fault, with its line."""
    (folder / "broken_module.py").write_text("import no_such_thing\n", "utf-8")
    line = ("tools", "list", "--host-tools-module", "broken_module")

    assert "Traceback" not in invoke(*line).stderr
    assert "import no_such_thing" in invoke("--debug", *line).stderr


@pytest.mark.wire
def test_f17_a_broken_plugin_is_a_sentence(folder: Path) -> None:
    """F17: it is named with its fault, the other tools are there, and its traceback is for
    --debug.
    """
    info = folder / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: acme\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[toolcrib.host_tools]\nacme = acme_tools\n", "utf-8")
    (folder / "acme_tools.py").write_text("1 / 0\n", "utf-8")
    line = ("tools", "list", *CALL[-2:], "--plugins")
    path = {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(folder)])}

    done = run(*line, cwd=folder, **path)
    shown = run("--debug", *line, cwd=folder, **path)

    assert done.returncode == 0
    assert "boom" in done.stdout
    assert done.stderr.count("acme was not loaded: ZeroDivisionError: division by zero") == 1
    assert "Traceback" not in done.stderr
    assert "1 / 0" in shown.stderr


def test_a_fault_of_the_program_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what it was and how to see more; with --debug it is all there."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("by accident")

    monkeypatch.setattr("toolcrib.cli.doctor.check_port", fail)

    done = invoke("doctor")
    shown = invoke("--debug", "doctor")

    assert done.exit_code == shown.exit_code == 1
    assert "unexpected ZeroDivisionError: by accident" in done.stderr
    assert "toolcrib --debug" in done.stderr
    assert "Traceback" not in done.stderr
    assert 'raise ZeroDivisionError("by accident")' in shown.stderr


@pytest.mark.wire
async def test_no_traceback_goes_to_a_client(folder: Path) -> None:
    """The server's own log has it, once; the client is told the failure."""
    async with serving(*CALL[-2:], cwd=folder, TOOLCRIB_DEBUG="1") as served:
        where = ("--url", served.url, "--token-file", "token")
        done = await asyncio.to_thread(
            run, "tools", "call", "boom", "key=k", *where, "--json", cwd=folder
        )
        await served.stop()

    assert "".join(served.said).count("return {}[key]") == 1
    assert done.returncode == 1
    assert "KeyError" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "broken_tools" not in done.stdout + done.stderr


def test_a_tool_that_raised_names_the_way_to_its_traceback() -> None:
    """Newcomers B: who sees only `KeyError: 'k'` is told how to see the line."""
    assert "run it with `toolcrib --debug ...`" in invoke(*CALL).stderr
    assert "run it with" not in invoke("--debug", *CALL).stderr
