"""Setting up prints a line for each step, not every line of pip and not nothing."""

from scripts.pip_steps import steps

PIP = """\
Looking in links: /opt/wheels
Obtaining file:///src/toolcrib
  Installing build dependencies: started
  Preparing editable metadata (pyproject.toml): finished with status 'done'
WARNING: Location 'file:///opt/more/numpy/' is ignored: it is neither a file nor a directory.
Collecting numpy==2.4.6
  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16.7 MB)
Collecting six==1.17.0
  Using cached six-1.17.0-py2.py3-none-any.whl (11 kB)
Requirement already satisfied: pip in ./.venv
WARNING: Retrying (Retry(total=4)) after connection broken
Building wheels for collected packages: toolcrib
Successfully built toolcrib
Installing collected packages: six, numpy, toolcrib
Successfully installed numpy-2.4.6 six-1.17.0 toolcrib-0.1.0
"""


def test_a_line_for_each_step() -> None:
    """What is fetched, what is large, what is installed; warnings pass."""
    assert [*steps(PIP.splitlines(keepends=True))] == [
        "   fetching packages 1 to 10",
        "   numpy, 16.7 MB",
        "WARNING: Retrying (Retry(total=4)) after connection broken",
        "   unpacking 3 packages",
        "   installed 3 packages",
    ]


def test_errors_pass_unchanged() -> None:
    """Whoever cannot install reads pip's own words."""
    error = "ERROR: No matching distribution found for numpy==9"

    assert [*steps([error + "\n"])] == [error]


def test_many_packages_are_told_by_tens() -> None:
    """A line for each of two hundred packages would hide the rest."""
    lines = [f"Collecting package{number}\n" for number in range(25)]

    assert len([*steps(lines)]) == 3
