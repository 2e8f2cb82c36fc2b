"""`toolcrib demo`: one session, from a question to the proof."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from toolcrib.cli.console import Open
from toolcrib.cli.output import Exit, fail, require_extras

if TYPE_CHECKING:
    from toolcrib.demo.play import End

_EXITS: Final[dict[End, Exit]] = {
    "equal": Exit.OK,
    "different": Exit.FAILED,
    "waiting": Exit.WAITING,
}


def demo(
    backend: Annotated[
        str | None,
        typer.Option("--backend", metavar="scripted|llama|openai", help="Who answers."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model to ask.")
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", metavar="URL", help="A chat endpoint: Ollama, llama.cpp, vLLM."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Keep everything there."),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FOLDER",
            help="Other inputs than the demo's own: sales.csv, files, site.",
        ),
    ] = None,
    open_chart: Annotated[bool, typer.Option("--open-chart", help="Open the chart.")] = False,
    open: Open = False,
) -> None:
    """Play a whole session: web and file search, Python, an order that a person approves.

    Without options a written scenario answers, which needs no model; every fact in it comes from
    the tools of the run. On a terminal you are asked to approve; elsewhere a rule says yes.

    With --open the console is served on the ledger of the demo afterwards, until Ctrl-C.

    Example: toolcrib demo --open

    Example: toolcrib demo --backend llama --open-chart
    """
    # Before anything of the demo is imported, which needs them.
    require_extras(("demo",), "the demo")

    import tempfile

    place = (folder or Path(tempfile.mkdtemp(prefix="toolcrib-demo-"))).resolve()
    end = _played(place, backend, model, base_url, inputs, opens_chart=open_chart)
    if open:
        from toolcrib.demo.play import console_command

        # This process becomes the command that the demo has just shown.
        os.execv(sys.executable, [sys.executable, "-m", *console_command(place)])
    raise typer.Exit(_EXITS[end])


def _played(
    place: Path,
    backend: str | None,
    model: str | None,
    base_url: str | None,
    inputs: Path | None,
    *,
    opens_chart: bool,
) -> End:
    """Play the demo in a folder, which must be empty."""
    import asyncio

    from toolcrib.demo.backends import choose_backend
    from toolcrib.demo.play import play
    from toolcrib.demo.story import DATA
    from toolcrib.errors import ToolcribError

    try:
        place.mkdir(parents=True, exist_ok=True)
        if any(place.iterdir()):
            fail(f"{place} is not empty; name a folder that is, or one that is not there")
        choice = choose_backend(backend, model, base_url)
        source = inputs.resolve() if inputs else DATA
        return asyncio.run(play(choice, place, source=source, opens=opens_chart))
    except (ToolcribError, OSError) as error:
        fail(str(error))
