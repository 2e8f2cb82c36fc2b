"""`toolcrib sessions`: what a store or a server holds, and going on with it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from toolcrib.cli.approver import ApproveOption, approver_for
from toolcrib.cli.output import show, show_json, show_json_line
from toolcrib.cli.results import finish_prompt
from toolcrib.cli.runtime_options import (
    AdapterName,
    HostToolFiles,
    HostToolModules,
    Plugins,
    PolicyFile,
    RuntimeOptions,
)
from toolcrib.cli.service import (
    OptionalStore,
    RuntimeConnection,
    ServiceConnection,
    TokenFile,
    Url,
    chosen_url,
    open_hosted_service,
    open_service,
)
from toolcrib.cli.store_options import Json, time_text

app = typer.Typer(help="See sessions, and go on with them.", no_args_is_help=True)

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session, as listed.")]

PAGE = 1_000
"""How many events are asked for at a time."""


@app.command("list")
def list_command(
    store: OptionalStore = None, url: Url = None, token_file: TokenFile = None, json: Json = False
) -> None:
    """Print every session, oldest first.

    Example: toolcrib sessions list --store crib.sqlite3
    """
    with open_service(store, url, token_file) as desk:
        found: list[dict[str, Any]] = desk.ask("session.list")["sessions"]
        sessions = [_with_store(desk, each) for each in found]
    if json:
        show_json(sessions)
        return
    for each in sessions:
        created = [time_text(each["created_at"])] if "created_at" in each else []
        counts = [f"records={each['last_seq']}", f"pending={each['pending_approvals']}"]
        show(" ".join([each["session_id"], each["state"], *created, *counts]))


@app.command("show")
def show_command(
    session: SessionId,
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print one session with its open calls and what waits for a decision.

    Example: toolcrib sessions show ses_1 --store crib.sqlite3
    """
    with open_service(store, url, token_file) as desk:
        facts = _with_store(desk, desk.ask("session.get", {"session_id": session}))
        waiting = desk.ask("approvals.list", {"session_id": session})["approvals"]
        calls = _open_calls(desk, session)
    pending = [each["approval_id"] for each in waiting]
    if json:
        show_json({"session": facts, "open_calls": calls, "pending": pending})
        return
    show(f"session:  {facts['session_id']} ({facts['state']})")
    if "created_at" in facts:
        show(f"created:  {time_text(facts['created_at'])}")
    show(f"records:  {facts['last_seq']}")
    show(f"turn:     {facts['turn']}")
    for call in calls:
        show(f"call:     {call['call_id']} {call['tool']} {call['state']}")
    for approval_id in pending:
        show(f"pending:  {approval_id}")


@app.command()
def export(
    session: SessionId, store: OptionalStore = None, url: Url = None, token_file: TokenFile = None
) -> None:
    """Print everything that happened in a session: one event a line, as JSON.

    Example: toolcrib sessions export ses_1 --store crib.sqlite3 > ses_1.jsonl
    """
    with open_service(store, url, token_file) as desk:
        # A session that is not there is refused; one without events is only empty.
        desk.ask("session.get", {"session_id": session})
        after = 0
        while page := _page(desk, session, after):
            for event in page:
                show_json_line(event)
            after = page[-1]["seq"]


@app.command()
def resume(
    session: SessionId,
    store: OptionalStore = None,
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    policy: PolicyFile = None,
    adapter: AdapterName = None,
    approve: ApproveOption = "ask",
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Go on with the prompt of a session that waits for a decision, or was cut off.

    What ran is not repeated. The exit status is 4 while it still waits.

    Example: toolcrib sessions resume ses_1 --store crib.sqlite3 --host-tools host-tools.yaml
    --adapter model:adapter
    """
    asked = RuntimeOptions(
        files=host_tools,
        modules=host_tools_module,
        plugins=plugins,
        store=store,
        policy=policy,
        adapter=adapter,
        approver=approver_for(approve),
    )
    if chosen_url(url, is_local=asked.is_local) is None and None in (store, adapter):
        raise typer.BadParameter(
            "to go on here, name --store FILE and --adapter MODULE:NAME; elsewhere, --url URL"
        )
    with open_hosted_service(asked, url, token_file, needs_tools=False) as desk:
        desk.ask("session.resume", {"session_id": session})
        result = desk.ask("prompt.resume", {"session_id": session, "waits": False})
    finish_prompt(result, f"--url {url}" if url else f"--store {store}", json=json)


def _page(desk: ServiceConnection, session: str, after: int) -> list[dict[str, Any]]:
    asked = {"session_id": session, "after": after, "limit": PAGE}
    return desk.ask("events.list", asked)["events"]


def _with_store(desk: ServiceConnection, facts: dict[str, Any]) -> dict[str, Any]:
    """What only the store knows: when it was made, and whether any process writes it."""
    if not isinstance(desk, RuntimeConnection):
        return facts
    info = desk.store.session(facts["session_id"])
    state = "open" if info.is_open else "closed"
    return {**facts, "state": state, "created_at": info.created_at}


def _open_calls(desk: ServiceConnection, session: str) -> list[dict[str, Any]]:
    # The arguments of an open call are the real ones, secrets included; they are not shown.
    if not isinstance(desk, RuntimeConnection):
        return []
    calls = desk.store.open_calls(session)
    return [{"call_id": each.call_id, "tool": each.tool.id, "state": each.state} for each in calls]
