"""The results of calls and prompts as output and exit status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from toolcrib.cli.output import Exit, show_json, show_note, show_text
from toolcrib.cli.project_options import current_choice, is_on_command_line
from toolcrib.terminal_text import STATUS_STYLES, end_word

if TYPE_CHECKING:
    from toolcrib.store.address import StoreAddress

_DENIALS: Final = ("denied", "not_permitted")
"""The failures by a person's and by a policy's denial."""


@dataclass(frozen=True, slots=True)
class RequestPlace:
    """Where a request waits: the options that name it to a command, each after a space, and who
    decides there.
    """

    options: str
    who: str
    is_server: bool = False


def place_of(
    store: StoreAddress | None, url: str | None, token_file: Path | None
) -> RequestPlace | None:
    """Where the requests of a command wait: on its server, in its store, or nowhere."""
    if url is not None:
        # On a server the caller may not be allowed to approve, and hardly ever its own calls.
        token = " --token-file FILE" if token_file is not None else ""
        return RequestPlace(
            f" --url {url}{token}", "Somebody who may approve it decides", is_server=True
        )
    if store is None:
        return None
    # The store of the project of this folder needs no option here.
    is_own = current_choice().file is None and not is_on_command_line("store")
    return RequestPlace("" if is_own else f" --store {store}", "Decide")


def finish_call(
    result: Mapping[str, Any], session_id: str, place: RequestPlace | None, *, json: bool
) -> None:
    """Print the result of a call, and exit with its status unless that is 0."""
    status = show_call(result, session_id, place, json=json)
    if status is not Exit.OK:
        raise typer.Exit(status)


def show_call(
    result: Mapping[str, Any], session_id: str, place: RequestPlace | None, *, json: bool = False
) -> Exit:
    """Print the result of a call, and return its exit status."""
    if json:
        show_json(result)
    elif result["status"] == "completed":
        show_text(result["text"])
        _show_artifact_hint(result, session_id, place)
    status = status_of(result)
    if status is Exit.WAITING:
        show_note(_how_to_continue(result, session_id, place), "yellow")
    elif status is not Exit.OK:
        word = end_word(is_success=False, failure_kind=_kind(result))
        show_note(f"{result['tool']} {word}: {_why(result)}", STATUS_STYLES[word])
        _show_debug_hint(result, place)
    return status


def _show_artifact_hint(
    result: Mapping[str, Any], session_id: str, place: RequestPlace | None
) -> None:
    """Say how to print the whole of a result that was cut; without a store it is gone."""
    if result.get("artifact_id") is not None and place is not None:
        options = f"{session_id} {result['artifact_id']}{place.options}"
        show_note(f"the whole result: toolcrib sessions artifact {options}")


def _show_debug_hint(result: Mapping[str, Any], place: RequestPlace | None) -> None:
    """Say where the traceback of a tool is that raised in this process."""
    from toolcrib.cli.debug import HINT, is_debug

    is_here = place is None or not place.is_server
    if _kind(result) == "tool_error" and is_here and not is_debug():
        show_note(HINT)


def _why(result: Mapping[str, Any]) -> str:
    """What is told of a call that did not complete; the kind of failure, where the word that is
    shown for it does not say it.
    """
    kind, text = _kind(result), str(result["text"])
    return text if kind in (None, "denied", "expired", "cancelled") else f"{kind}: {text}"


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


def show_wait(result: Mapping[str, Any], place: RequestPlace) -> None:
    """Say what a command waits for, and how it is decided."""
    ending = "The command goes on then; Ctrl-C leaves the call waiting."
    show_note(f"{_waiting_text(result, place)}\n{ending}", "yellow")


def _waiting_text(result: Mapping[str, Any], place: RequestPlace) -> str:
    approval, tool = result["approval_id"], result["tool"]
    return (
        f"{tool} waits for approval {approval}. {place.who} with:\n"
        f"  toolcrib approvals approve {approval}{place.options}"
    )


def _how_to_continue(result: Mapping[str, Any], session_id: str, place: RequestPlace | None) -> str:
    approval, tool = result["approval_id"], result["tool"]
    waiting = f"{tool} waits for approval {approval}."
    if place is None:
        return f"{waiting} Nobody can decide it: call again with --store FILE, or at a terminal."
    return (
        f"{_waiting_text(result, place)}\n"
        f"then repeat this command with: --session {session_id} --call-id {result['call_id']}\n"
        "With --wait, the command waits for the decision and goes on by itself."
    )


def finish_prompt(
    result: Mapping[str, Any], place: RequestPlace | None, *, json: bool, is_shown: bool = False
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
        show_note(_how_to_resume(result, place), "yellow")
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


def show_prompt_wait(result: Mapping[str, Any], place: RequestPlace) -> None:
    """Say what a command waits for, and how it is decided."""
    ending = "The command goes on then; Ctrl-C leaves the prompt waiting."
    show_note(f"{_waiting_prompt_text(result, place)}\n{ending}", "yellow")


def _waiting_prompt_text(result: Mapping[str, Any], place: RequestPlace) -> str:
    names = result["pending"]
    commands = [f"\n  toolcrib approvals approve {name}{place.options}" for name in names]
    return (
        f"the prompt waits for approval of {', '.join(names)}. {place.who} with:{''.join(commands)}"
    )


def _how_to_resume(result: Mapping[str, Any], place: RequestPlace | None) -> str:
    if place is None:
        return (
            f"the prompt waits for approval of {', '.join(result['pending'])}. Nobody can decide "
            "it: run again with --store FILE, or at a terminal."
        )
    return (
        f"{_waiting_prompt_text(result, place)}\n"
        f"then resume with: toolcrib sessions resume {result['session_id']}{place.options} ..."
    )
