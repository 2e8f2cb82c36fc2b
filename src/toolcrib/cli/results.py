"""What a call came to, told by output and exit status.

What the exit status of every command means, the same everywhere.

What a prompt came to, told by output and exit status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import typer

from toolcrib.cli.output import Exit, show_json, show_note, show_text

_DENIALS: Final = ("denied", "not_permitted")
"""What a person's no is called, and a policy's."""


def finish_call(
    result: Mapping[str, Any], session_id: str, where: str | None, *, json: bool
) -> None:
    """Print the result and raise the exit status that belongs to it, unless it is 0."""
    if json:
        show_json(result)
    elif result["status"] == "completed":
        show_text(result["text"])
    status = status_of(result)
    if status is Exit.WAITING:
        show_note(_how_to_go_on(result, session_id, where), "yellow")
    elif status is not Exit.OK:
        show_note(f"{result['tool']}: {_kind(result) or 'failed'}: {result['text']}", "red")
    if status is not Exit.OK:
        raise typer.Exit(status)


def status_of(result: Mapping[str, Any]) -> Exit:
    """The exit status of a call's result."""
    match result["status"]:
        case "completed":
            return Exit.OK
        case "waiting":
            return Exit.WAITING
        case _:
            return Exit.DENIED if _kind(result) in _DENIALS else Exit.FAILED


def _kind(result: Mapping[str, Any]) -> str | None:
    failure: Any = result["failure"]
    return None if failure is None else failure["kind"]


def _how_to_go_on(result: Mapping[str, Any], session_id: str, where: str | None) -> str:
    approval, tool = result["approval_id"], result["tool"]
    told = f"{tool} waits for approval {approval}."
    if where is None:
        return f"{told} Nobody else can give it: call again with --store FILE, or at a terminal."
    return (
        f"{told} Decide with:\n  toolcrib approvals approve {approval} {where}\n"
        f"then repeat this command with: --session {session_id} --call-id {result['call_id']}"
    )


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
        show_note(_how_to_resume(result, where), "yellow")
    elif status is not Exit.OK:
        show_note(
            f"the prompt {result['status']}: {result['error'] or 'nobody asks any more'}", "red"
        )
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


def _how_to_resume(result: Mapping[str, Any], where: str | None) -> str:
    told = f"the prompt waits for approval of {', '.join(result['pending'])}."
    if where is None:
        return f"{told} Nobody else can give it: run again with --store FILE, or at a terminal."
    decide = "".join(f"\n  toolcrib approvals approve {each} {where}" for each in result["pending"])
    return (
        f"{told} Decide with:{decide}\n"
        f"then go on with: toolcrib sessions resume {result['session_id']} {where} ..."
    )
