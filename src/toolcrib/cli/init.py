"""`toolcrib init`: a small project that runs."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from toolcrib.cli.output import fail, show, show_note

FILES: Final = ("host-tools.yaml", "workshop.py", "policy.yaml", "README.md")


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to put it; else here.")
    ] = Path(),
) -> None:
    """Write a small project that runs.

    It has two tools, a policy and a README of three commands. Nothing that is there is changed.

    Example: toolcrib init workshop
    """
    taken = [name for name in FILES if (folder / name).exists()]
    if taken:
        fail(f"{folder / taken[0]} is there already, and nothing was written; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            _write(folder / name)
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}; name another folder")
    move = "" if folder == Path() else f"cd {folder} && "
    show_note(f"try it: {move}toolcrib tools list --host-tools host-tools.yaml")


def _write(path: Path) -> None:
    text = (files("toolcrib.cli") / "project" / path.name).read_text("utf-8")
    # Exclusive: a file that somebody made since the look is kept.
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    show(str(path))
