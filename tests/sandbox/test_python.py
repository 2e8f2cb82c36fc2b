"""Python in a sandbox: the program's own interpreter, and the libraries that were chosen."""

from pathlib import Path

import pytest

from toolcrib.errors import UsageError
from toolcrib.sandbox import (
    BackendName,
    Command,
    SandboxLimits,
    WorkDirectory,
    find_python,
    find_sandbox,
)

PLOT = """
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plot
import pandas

frame = pandas.DataFrame({"x": [1, 2, 3], "y": [2, 4, 9]})
plot.plot(frame.x, frame.y)
plot.savefig("plot.png")
print(frame.y.mean())
"""
IMPORTS = "import json, sqlite3, ssl\nimport packaging, {}\nprint('imported')"


def test_a_library_brings_what_it_needs() -> None:
    """The pieces of a library and of all that it depends on, and of nothing else."""
    names = {path.name for path in find_python(("pandas",)).libraries}

    assert {"pandas", "numpy", "dateutil"} <= names
    assert "pytest" not in names
    assert find_python().libraries == ()


def test_a_library_that_is_not_installed_is_told() -> None:
    """Before anything runs."""
    with pytest.raises(UsageError, match="'no-such-library' is not installed"):
        find_python(("no-such-library",))


async def test_only_chosen_libraries_can_be_imported() -> None:
    """With bubblewrap; the standard library is whole."""
    sandbox = await find_sandbox("bubblewrap")
    python = find_python(("packaging",))

    async def run(other: str) -> bytes:
        program = IMPORTS.format(other)
        argv = (python.executable, "-I", "-c", program)
        finished = await sandbox.run(Command(argv=argv, readable=python.readable("bubblewrap")))
        return finished.stdout or finished.stderr

    assert await run("json") == b"imported\n"
    assert b"No module named 'pydantic'" in await run("pydantic")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["bubblewrap", "sandlock"])
async def test_a_chart_is_drawn(backend: BackendName) -> None:
    """Both matplotlib and pandas work inside, and the picture comes out."""
    sandbox = await find_sandbox(backend)
    python = find_python(("matplotlib", "pandas"))
    with WorkDirectory.temporary() as work:
        home = str(work.path)
        finished = await sandbox.run(
            Command(
                argv=(python.executable, "-I", "-c", PLOT),
                env={"HOME": home, "MPLCONFIGDIR": home, "OPENBLAS_NUM_THREADS": "1"},
                readable=python.readable(backend),
                limits=SandboxLimits(seconds=120),
            ),
            work=work,
        )
        assert finished.stdout == b"5.0\n", finished.stderr
        assert work.read("plot.png", limit=1_000_000).startswith(b"\x89PNG")


def test_the_interpreter_itself_is_among_what_it_needs() -> None:
    """Or it lies where all programs lie."""
    python = find_python()
    shown = (*python.prefix, Path("/usr"))

    assert any(Path(python.executable).is_relative_to(path) for path in shown)
