"""The `toolcrib` command as a process: exit codes, streams, start-up, and a missing extra."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import toolcrib
from tests.cli.command import MAIN, at_terminal, run
from toolcrib.extras import install_command

pytestmark = pytest.mark.wire  # every test starts processes

HALTED = "import sys; sys.modules[{name!r}] = None; from toolcrib.cli import main; main()"
LOADED = """
import atexit, sys
sys.argv = ["toolcrib", *{arguments!r}]
atexit.register(lambda: print(*sorted(sys.modules), sep="\\n", file=sys.stderr))
from toolcrib.cli import main
main()
"""
SDKS = ("acp", "anthropic", "httpx2", "mcp", "openai", "pydantic_ai", "starlette", "uvicorn")


def loaded_by(*arguments: str) -> set[str]:
    """The modules that are imported when the command is done."""
    program = LOADED.format(arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def test_the_version_is_data() -> None:
    """`--version` prints on stdout and succeeds."""
    done = run("--version")

    assert (done.returncode, done.stdout) == (0, f"toolcrib {toolcrib.__version__}\n")


def test_the_version_needs_nothing() -> None:
    """It imports neither the command line's libraries nor the package's own parts."""
    loaded = loaded_by("--version")

    assert loaded.isdisjoint({"typer", "rich", "pydantic", "asyncio", *SDKS})
    assert {name for name in loaded if name.startswith("toolcrib")} == {
        "toolcrib",
        "toolcrib._lazy",
        "toolcrib._version",
        "toolcrib.cli",
    }


def test_a_command_imports_no_other() -> None:
    """A command is imported when it is named, and no SDK before it is used."""
    loaded = loaded_by("policy", "--help")

    assert "toolcrib.cli.policy" in loaded
    assert loaded.isdisjoint({"toolcrib.cli.serve", "toolcrib.cli.run", *SDKS})


def test_help_imports_no_sdk() -> None:
    """The list of all commands needs all of them, and nothing that they only use."""
    assert loaded_by("--help").isdisjoint(SDKS)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nonsense", "nonsense"),
        ("sesions", "Did you mean 'sessions', 'questions'?"),
        ("aprovals", "Did you mean 'approvals'?"),
    ],
)
def test_wrong_use_is_status_2(word: str, said: str) -> None:
    """An unknown command is a usage error, said on stderr, with what may have been meant."""
    done = run(word)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_help_lists_the_groups() -> None:
    """The command explains itself."""
    done = run("--help")

    assert done.returncode == 0
    assert "policy" in done.stdout


def test_without_the_extra_the_command_says_what_to_install() -> None:
    """A missing package is one sentence, not a traceback."""
    for name in ("typer", "rich"):
        program = HALTED.format(name=name)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )

        assert done.returncode == 1
        assert f"needs {name}" in done.stderr
        assert install_command("cli") in done.stderr
        assert "Traceback" not in done.stderr


def test_without_the_server_extra_serve_says_what_to_install() -> None:
    """The same for what only one command needs."""
    program = (
        "import sys; sys.argv = ['toolcrib', 'serve', '--http']; "
        "from importlib.machinery import PathFinder as P; old = P.find_spec; "
        "P.find_spec = classmethod(lambda c, n, *a: None if n == 'uvicorn' else old(n, *a)); "
        "from toolcrib.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert install_command("server") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_traceback(tmp_path: Path) -> None:
    """`toolcrib ... | head -1` ends quietly."""
    reads = subprocess.Popen(
        [*MAIN, "support", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert reads.stdout is not None
    reads.stdout.close()
    assert reads.stderr is not None
    said = reads.stderr.read().decode()
    reads.stderr.close()
    reads.wait()

    assert "Traceback" not in said


class TestColour:
    async def test_a_terminal_has_colour_unless_it_is_not_wanted(self, tmp_path: Path) -> None:
        """NO_COLOR is respected at a terminal."""
        (tmp_path / "p.yaml").write_text("version: 1\nunmatched: allow\n", "utf-8")
        explain = ("policy", "explain", "p.yaml", "--tool", "x")
        with at_terminal(*explain, cwd=tmp_path) as started:
            shown = await started.see("allow")
            assert await started.exit_code() == 0

        assert "\x1b[" not in shown

    async def test_colour_is_for_terminals(self, tmp_path: Path) -> None:
        """The same at a terminal that wants it, and over a pipe."""
        (tmp_path / "p.yaml").write_text("version: 1\nunmatched: allow\n", "utf-8")
        explain = ("policy", "explain", "p.yaml", "--tool", "x")
        with at_terminal(*explain, cwd=tmp_path, NO_COLOR="") as started:
            shown = await started.see("allow")
            assert await started.exit_code() == 0
        piped = await asyncio.to_thread(run, *explain, cwd=tmp_path, NO_COLOR="")

        assert "\x1b[32m" in shown
        assert "\x1b" not in piped.stdout


def test_json_is_alone_on_stdout(tmp_path: Path) -> None:
    """Warnings go to stderr, so that a program can read the answer."""
    rule = "  - allow: run\n    arguments: {/command: {glob: 'ls*'}}\n"
    (tmp_path / "p.yaml").write_text(f"version: 1\nrules:\n{rule}", "utf-8")

    done = run("policy", "check", "p.yaml", "--json", cwd=tmp_path)

    assert json.loads(done.stdout)["warnings"]
    assert "warning" in done.stderr
