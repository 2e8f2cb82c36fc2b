"""`toolcrib run`: a model and the host's tools, from the terminal."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from toolcrib.cli.approver import ApproveOption, approver_for, is_terminal
from toolcrib.cli.output import redirected_stdout
from toolcrib.cli.results import finish_prompt, place_of
from toolcrib.cli.runtime_options import (
    HOST_OPTIONS,
    RuntimeOptions,
    run_hosted,
    takes_runtime_options,
)
from toolcrib.cli.store_options import Json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolcrib.runtime.chat import Chat
    from toolcrib.runtime.runtime import Runtime

T = TypeVar("T")


@takes_runtime_options(*HOST_OPTIONS, "adapter", "instructions")
def run(
    options: RuntimeOptions,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="The prompt; else stdin, or a chat at a terminal."),
    ] = None,
    approve: ApproveOption = "ask",
    session: Annotated[
        str | None,
        typer.Option(
            "--session", metavar="ID", help="Continue this session; else start a new one."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Have a model answer with the host's tools: one prompt, or a chat.

    The answer streams to stdout, the tools' activity to stderr. The exit status is 4 while a call
    waits for approval.

    Example: toolcrib run "How many bolts are left?" --adapter model:adapter
    --host-tools host-tools.yaml
    """
    from toolcrib.cli.chat import TerminalChat
    from toolcrib.cli.event_screen import EventScreen
    from toolcrib.runtime.service import as_json

    if options.adapter is None:
        raise typer.BadParameter("no model: name an adapter with --adapter MODULE:NAME")
    options = replace(
        options,
        approver=approver_for(approve, has_store=options.store is not None),
        drain_seconds=0.0,
    )
    text = prompt if prompt is not None else _from_stdin()
    if text is None:
        if json:
            raise typer.BadParameter("--json is for one prompt; give PROMPT")
        with redirected_stdout() as out:
            run_hosted(options, _in_chat(session, lambda chat: TerminalChat(chat, out).run()))
        return
    with redirected_stdout() as out:
        screen = EventScreen(out, is_silent=json)
        result = run_hosted(
            options, _in_chat(session, lambda chat: screen.follow(chat.send(text, waits=False)))
        )
    place = place_of(options.store, None, None)
    finish_prompt(as_json(result), place, json=json, is_shown=True)


def _from_stdin() -> str | None:
    """The text of stdin; None when stdin is a terminal where a person can chat."""
    if is_terminal():
        return None
    if sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to chat on; give PROMPT")
    text = sys.stdin.read().strip()
    if not text:
        raise typer.BadParameter("the prompt is empty; give PROMPT, or text on stdin")
    return text


def _in_chat(
    session: str | None, talk: Callable[[Chat], Awaitable[T]]
) -> Callable[[Runtime], Awaitable[T]]:
    from toolcrib.cli.service import current_person
    from toolcrib.runtime.chat import Chat

    async def talk_in_chat(runtime: Runtime) -> T:
        async with runtime:
            operations = runtime.as_principal(current_person())
            # A mistyped session is an error here: only a program opens one by its name.
            if session is None:
                facts = await operations.create_session()
            else:
                facts = await operations.resume_session(session)
            return await talk(Chat(operations, facts.session_id))

    return talk_in_chat
