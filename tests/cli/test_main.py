"""The `toolcrib` command as a process: exit codes, streams, and a missing extra."""

import os
import subprocess
import sys

import toolcrib

HALTED = "import sys; sys.modules[{name!r}] = None; from toolcrib.cli import main; main()"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from toolcrib.cli import main; main()", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"}
    )


def test_the_version_is_data() -> None:
    """`--version` prints on stdout and succeeds."""
    done = run("--version")

    assert (done.returncode, done.stdout) == (0, f"toolcrib {toolcrib.__version__}\n")


def test_wrong_use_is_status_2() -> None:
    """An unknown command is a usage error, said on stderr."""
    done = run("nonsense")

    assert (done.returncode, done.stdout) == (2, "")
    assert "nonsense" in done.stderr


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
        assert "pip install 'toolcrib[cli]'" in done.stderr
        assert "Traceback" not in done.stderr
