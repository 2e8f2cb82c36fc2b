"""`toolcrib init`: a small project that runs."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from toolcrib.cli.output import fail, show, show_note

FILES: Final = {
    "workshop.py": "workshop.py",
    "toolcrib.yaml": "toolcrib.yaml",
    "policy.yaml": "policy.yaml",
    "test_workshop.py": "test_workshop.py",
    "README.md": "README.md",
    # Under its own name it would hide files of the package from git.
    ".gitignore": "gitignore",
}
"""The files of a project, and what each is called in the package."""


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to put it; else here.")
    ] = Path(),
) -> None:
    """Write a small project that runs: two tools, a policy in force, and a test.

    Nothing that is there is changed.

    Example: toolcrib init workshop
    """
    taken = [name for name in FILES if (folder / name).exists()]
    if taken:
        fail(f"{folder / taken[0]} is there already, and nothing was written; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in FILES.items():
            _write(folder / name, source)
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}; name another folder")
    move = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    show_note(f"\nnext: {move}toolcrib dev\nREADME.md has more commands to try")


def _write(path: Path, source: str) -> None:
    text = (files("toolcrib.cli") / "project" / source).read_text("utf-8")
    # Exclusive: a file that somebody made since the look is kept.
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    show(str(path))
