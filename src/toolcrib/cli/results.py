"""The results of calls and prompts as output and exit status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import typer

from toolcrib.cli.output import Exit, show_json, show_note, show_text

_DENIALS: Final = ("denied", "not_permitted")
"""The failures by a person's and by a policy's denial."""


def finish_call(
    result: Mapping[str, Any], session_id: str, where: str | None, *, json: bool
) -> None:
    """Print the result of a call, and exit with its status unless that is 0."""
    if json:
        show_json(result)
    elif result["status"] == "completed":
        show_text(result["text"])
    status = status_of(result)
    if status is Exit.WAITING:
        show_note(_how_to_continue(result, session_id, where), "yellow")
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


def _how_to_continue(result: Mapping[str, Any], session_id: str, where: str | None) -> str:
    approval, tool = result["approval_id"], result["tool"]
    waiting = f"{tool} waits for approval {approval}."
    if where is None:
        return f"{waiting} Nobody can decide it: call again with --store FILE, or at a terminal."
    return (
        f"{waiting} Decide with:\n  toolcrib approvals approve {approval} {where}\n"
        f"then repeat this command with: --session {session_id} --call-id {result['call_id']}"
    )


def finish_prompt(
    result: Mapping[str, Any], where: str | None, *, json: bool, is_shown: bool = False
) -> None:
    """Print the answer of a prompt unless it was streamed, and exit with its status unless that
    is 0.
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
            f"the prompt {result['status']}: {result['error'] or 'no reason is recorded'}", "red"
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
    waiting = f"the prompt waits for approval of {', '.join(result['pending'])}."
    if where is None:
        return f"{waiting} Nobody can decide it: run again with --store FILE, or at a terminal."
    commands = [f"\n  toolcrib approvals approve {name} {where}" for name in result["pending"]]
    return (
        f"{waiting} Decide with:{''.join(commands)}\n"
        f"then resume with: toolcrib sessions resume {result['session_id']} {where} ..."
    )
