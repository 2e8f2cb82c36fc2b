"""`toolcrib model`: downloads and lists the models for the llama backend."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from toolcrib.cli.output import fail, show, show_json, show_note
from toolcrib.cli.store_options import Json

if TYPE_CHECKING:
    from toolcrib.embedded.model_files import ModelFile

app = typer.Typer(help="Fetch a model that runs in the process.", no_args_is_help=True)

Folder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="FOLDER", help="Where models are, if not in the cache."),
]
_TENTH: Final = 10


@app.command()
def pull(
    small: Annotated[
        bool, typer.Option("--small", help="The small model: faster, and less able.")
    ] = False,
    folder: Folder = None,
) -> None:
    """Fetch a model, going on where an earlier try stopped. Its digest is checked before use.

    Example: toolcrib model pull --small
    """
    from toolcrib.embedded.model_files import DEFAULT, SMALL, model_folder
    from toolcrib.embedded.model_files import pull as fetch
    from toolcrib.errors import PullFailed

    model, place = SMALL if small else DEFAULT, folder or model_folder()
    show_note(f"{model.name}: {_size(model.bytes)}, {model.licence}")
    try:
        with _progress(model) as progress:
            path = fetch(model, place, progress)
    except (PullFailed, OSError) as error:
        fail(str(error))
    show(str(path))


@app.command("list")
def list_command(folder: Folder = None, json: Json = False) -> None:
    """Print the models that are known by name, and which of them are here.

    Example: toolcrib model list
    """
    from toolcrib.embedded.model_files import MODELS, model_folder

    place = folder or model_folder()
    models = [
        {
            "name": model.name,
            "bytes": model.bytes,
            "licence": model.licence,
            "path": str(place / model.filename) if (place / model.filename).is_file() else None,
        }
        for model in MODELS.values()
    ]
    if json:
        show_json(models)
        return
    for model in MODELS.values():
        path = place / model.filename
        here = str(path) if path.is_file() else "not here"
        show(f"{model.name:20} {_size(model.bytes):>8}  {model.licence}  {here}")


@contextmanager
def _progress(model: ModelFile) -> Generator[Callable[[int, str], None]]:
    """A bar on a terminal, and elsewhere a line for every tenth."""
    if not sys.stderr.isatty():
        yield _lines(model)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    console = Console(stderr=True)
    whole = Column(no_wrap=True)
    # The source gives way first: how far it is and for how long are what a person waits for.
    source = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        TextColumn("{task.description}", table_column=source),
        BarColumn(bar_width=max(10, min(40, console.width - 60))),
        DownloadColumn(table_column=whole),
        TimeRemainingColumn(table_column=whole),
    )
    with Progress(*columns, console=console, expand=True) as bar:
        task = bar.add_task(model.name, total=model.bytes)
        yield lambda done, where: bar.update(task, completed=done, description=where)


def _lines(model: ModelFile) -> Callable[[int, str], None]:
    last = -1

    def report(done: int, where: str) -> None:
        nonlocal last
        tenth = done * _TENTH // model.bytes
        if tenth > last:
            last = tenth
            show_note(f"{_size(done)} of {_size(model.bytes)} from {where}")

    return report


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
