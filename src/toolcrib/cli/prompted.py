"""What a prompt came to, told by output and exit status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from toolcrib.cli.exits import Exit
from toolcrib.cli.streams import note, show_json, show_text


def finish_prompt(
    result: Mapping[str, Any], where: str | None, *, json: bool, is_shown: bool = False
) -> None:
    """Print the answer, unless it was shown as it came, and raise the exit status that belongs to
    it, unless that is 0.
    """
    if json:
        show_json(result)
    elif result["text"] and not is_shown:
        show_text(result["text"])
    status = prompt_status(result)
    if status is Exit.WAITING:
        note(_how_to_go_on(result, where), "yellow")
    elif status is not Exit.OK:
        note(f"the prompt {result['status']}: {result['error'] or 'nobody asks any more'}", "red")
    if status is not Exit.OK:
        raise typer.Exit(status)


def prompt_status(result: Mapping[str, Any]) -> Exit:
    """The exit status of a prompt's result."""
    match result["status"]:
        case "completed":
            return Exit.OK
        case "waiting":
            return Exit.WAITING
        case _:
            return Exit.FAILED


def _how_to_go_on(result: Mapping[str, Any], where: str | None) -> str:
    told = f"the prompt waits for approval of {', '.join(result['pending'])}."
    if where is None:
        return f"{told} Nobody else can give it: run again with --store FILE, or at a terminal."
    decide = "".join(f"\n  toolcrib approvals approve {each} {where}" for each in result["pending"])
    return (
        f"{told} Decide with:{decide}\n"
        f"then go on with: toolcrib sessions resume {result['session_id']} {where} ..."
    )
