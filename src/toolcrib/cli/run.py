"""`toolcrib run`: a model and the host's tools, from the terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from toolcrib.cli.approver import ApproveOption, approver_for, is_terminal
from toolcrib.cli.output import fail, redirected_stdout, require_extra
from toolcrib.cli.project_options import is_on_command_line
from toolcrib.cli.results import finish_prompt, place_of
from toolcrib.cli.runtime_options import (
    HOST_OPTIONS,
    RuntimeOptions,
    run_hosted,
    takes_runtime_options,
)
from toolcrib.cli.service import TokenFile, Url, chosen_url, current_person
from toolcrib.cli.store_options import Json
from toolcrib.errors import Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from toolcrib.runtime.chat import Chat
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.runtime.typed_operations import TypedOperations

T = TypeVar("T")


@takes_runtime_options(*HOST_OPTIONS, "adapter", "instructions", "otlp")
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
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Have a model answer with the host's tools: one prompt, or a chat.

    The answer streams to stdout, the tools' activity to stderr. The exit status is 4 while a call
    waits for approval. With --url, the model and the tools are those of the server.

    Example: toolcrib run "How many bolts are left?" --adapter model:adapter
    --host-tools host-tools.yaml
    """
    from toolcrib.cli.chat import TerminalChat
    from toolcrib.cli.event_screen import EventScreen
    from toolcrib.runtime.service import as_json

    address = _checked_address(options, url, approve)
    options = replace(
        options,
        approver=approver_for(approve, has_store=options.store is not None),
        drain_seconds=0.0,
    )
    source = ChatSource(options, address, token_file, session)
    text = prompt if prompt is not None else _from_stdin()
    if text is None:
        if json:
            raise typer.BadParameter("--json is for one prompt; give PROMPT")
        with redirected_stdout() as out:
            source.run(lambda chat: TerminalChat(chat, out).run())
        return
    with redirected_stdout() as out:
        screen = EventScreen(out, is_silent=json)
        result = source.run(lambda chat: screen.follow(chat.send(text, waits=False), chat))
    place = place_of(options.store, address, token_file)
    finish_prompt(as_json(result), place, json=json, is_shown=True)


def _checked_address(options: RuntimeOptions, url: str | None, approve: str) -> str | None:
    """The address of the server, if one is meant; nothing that it would ignore is accepted."""
    address = chosen_url(url)
    if address is None:
        if not options.has_model:
            raise typer.BadParameter(
                "no model: name an adapter with --adapter MODULE:NAME, a model in toolcrib.yaml, "
                "or a server with --url URL"
            )
        return None
    if approve != "ask":
        raise typer.BadParameter("--approve is for a model here; on a server its rules decide")
    if is_on_command_line("instructions"):
        raise typer.BadParameter("--instructions is for a model here; a server has its own")
    return address


@dataclass(frozen=True, slots=True)
class ChatSource:
    """Where a chat takes place: at a server, or in a runtime that the options describe."""

    options: RuntimeOptions
    address: str | None
    token_file: Path | None
    session: str | None

    def run(self, talk: Callable[[Chat], Awaitable[T]]) -> T:
        """Open the chat, and talk. A refusal ends the command with status 1."""
        if self.address is None:
            return run_hosted(self.options, lambda runtime: self._in_runtime(runtime, talk))
        import asyncio

        require_extra("client", "run --url")
        try:
            return asyncio.run(self._at_server(self.address, talk))
        except (Refused, UsageError, OSError) as error:
            fail(str(error))

    async def _in_runtime(self, runtime: Runtime, talk: Callable[[Chat], Awaitable[T]]) -> T:
        from toolcrib.cli.server_watch import exported

        async with exported(runtime, self.options), runtime:
            return await talk(await self._opened(runtime.as_principal(current_person())))

    async def _at_server(self, address: str, talk: Callable[[Chat], Awaitable[T]]) -> T:
        from toolcrib.client import AsyncClient

        async with AsyncClient(address, token_file=self.token_file) as client:
            return await talk(await self._opened(client))

    async def _opened(self, operations: TypedOperations) -> Chat:
        """The chat of the session named, or of a new one. A mistyped name is an error here."""
        from toolcrib.runtime.chat import Chat

        if self.session is None:
            facts = await operations.create_session()
        else:
            facts = await operations.resume_session(self.session)
        return Chat(operations, facts.session_id)


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
