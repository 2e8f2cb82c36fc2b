"""`toolcrib run`: a model and the host's tools, from the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.approver import ApproveOption, approver_for, is_terminal
from toolcrib.cli.chat import ChatSession, chat
from toolcrib.cli.output import redirected_stdout
from toolcrib.cli.results import finish_prompt
from toolcrib.cli.runtime_options import (
    AdapterName,
    HostToolFiles,
    HostToolModules,
    Instructions,
    KeepIn,
    Plugins,
    PolicyFile,
    RuntimeOptions,
    run_hosted,
)
from toolcrib.cli.screen import EventScreen
from toolcrib.cli.store_options import Json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolcrib.runtime.runtime import Runtime


def run(
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help="What to ask; else stdin, or a chat at a terminal."),
    ] = None,
    adapter: AdapterName = None,
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    store: KeepIn = None,
    policy: PolicyFile = None,
    instructions: Instructions = "",
    approve: ApproveOption = "ask",
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Go on in this session; else in a new one."),
    ] = None,
    json: Json = False,
) -> None:
    """Have a model answer with the host's tools: one prompt, or a chat.

    The answer goes to stdout as it comes, what the tools do to stderr. The exit status is 4 when it
    waits for approval.

    Example: toolcrib run "How many bolts are left?" --adapter model:adapter
    --host-tools host-tools.yaml
    """
    if adapter is None:
        raise typer.BadParameter("name the model: --adapter MODULE:NAME of an adapter")
    asked = RuntimeOptions(
        files=host_tools,
        modules=host_tools_module,
        plugins=plugins,
        store=store,
        policy=policy,
        adapter=adapter,
        instructions=instructions,
        approver=approver_for(approve),
        drain_seconds=0.0,
    )
    text = prompt if prompt is not None else _from_stdin()
    if text is None:
        if json:
            raise typer.BadParameter("--json is for one prompt; give PROMPT")
        with redirected_stdout() as out:
            run_hosted(asked, _in(session, lambda talk: chat(talk, out)))
        return
    with redirected_stdout() as out:
        screen = EventScreen(out, is_silent=json)
        result = run_hosted(asked, _in(session, lambda talk: talk.answer(text, screen)))
    finish_prompt(result, f"--store {store}" if store else None, json=json, is_shown=True)


def _from_stdin() -> str | None:
    """The whole input where it is no terminal; None where a person can chat."""
    if is_terminal():
        return None
    if sys.stdin.isatty():
        raise typer.BadParameter("nothing can be asked here; give PROMPT")
    text = sys.stdin.read().strip()
    if not text:
        raise typer.BadParameter("there is nothing to ask; give PROMPT, or text on stdin")
    return text


def _in(
    session: str | None, talk: Callable[[ChatSession], Awaitable[Any]]
) -> Callable[[Runtime], Awaitable[Any]]:
    async def held(runtime: Runtime) -> Any:
        async with runtime:
            return await talk(await ChatSession.open(runtime, session))

    return held
