"""`toolcrib sessions`: list, show, export and resume the sessions of a store or a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from toolcrib.cli.approver import ApproveOption, approver_for
from toolcrib.cli.output import show, show_json, show_json_line
from toolcrib.cli.results import finish_prompt, place_of
from toolcrib.cli.runtime_options import HOST_OPTIONS, RuntimeOptions, takes_runtime_options
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

app = typer.Typer(help="List sessions, and resume them.", no_args_is_help=True)

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session, as listed.")]

PAGE = 1_000
"""The number of events per request."""


@app.command("list")
def list_command(
    store: OptionalStore = None, url: Url = None, token_file: TokenFile = None, json: Json = False
) -> None:
    """Print every session, oldest first.

    Example: toolcrib sessions list --store crib.sqlite3
    """
    with open_service(store, url, token_file) as service:
        sessions = [_with_store(service, facts) for facts in _every_session(service)]
    if json:
        show_json(sessions)
        return
    for facts in sessions:
        created = [time_text(facts["created_at"])] if facts.get("created_at") else []
        created += [f"owner={facts['owner'] or '-'}"]
        counts = [f"records={facts['last_seq']}", f"pending={facts['pending_approvals']}"]
        show(" ".join([facts["session_id"], facts["state"], *created, *counts]))


def _every_session(service: ServiceConnection) -> Iterator[dict[str, Any]]:
    cursor: str | None = ""
    while cursor is not None:
        page = service.ask("session.list", {"cursor": cursor or None, "limit": PAGE})
        yield from page["sessions"]
        cursor = page["cursor"]


@app.command("show")
def show_command(
    session: SessionId,
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print one session with its open calls and its pending approval requests.

    Example: toolcrib sessions show ses_1 --store crib.sqlite3
    """
    with open_service(store, url, token_file) as service:
        facts = _with_store(service, service.ask("session.get", {"session_id": session}))
        waiting = service.ask("approvals.list", {"session_id": session})["approvals"]
        calls = _open_calls(service, session)
    pending = [request["approval_id"] for request in waiting]
    if json:
        show_json({"session": facts, "open_calls": calls, "pending": pending})
        return
    show(f"session:  {facts['session_id']} ({facts['state']})")
    show(f"owner:    {facts['owner'] or '-'}")
    if facts.get("created_at"):
        show(f"created:  {time_text(facts['created_at'])}")
    if facts.get("last_event_at"):
        show(f"newest:   {time_text(facts['last_event_at'])}")
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
    """Print all events of a session as JSON, one per line.

    Example: toolcrib sessions export ses_1 --store crib.sqlite3 > ses_1.jsonl
    """
    with open_service(store, url, token_file) as service:
        # Refuses a session that does not exist; one without events is only empty.
        service.ask("session.get", {"session_id": session})
        after = 0
        while page := _page(service, session, after):
            for event in page:
                show_json_line(event)
            after = page[-1]["seq"]


@app.command()
@takes_runtime_options(*HOST_OPTIONS, "adapter")
def resume(
    options: RuntimeOptions,
    session: SessionId,
    approve: ApproveOption = "ask",
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Resume the prompt of a session that waits for a decision, or was interrupted.

    Completed calls are not repeated. The exit status is 4 while it still waits.

    Example: toolcrib sessions resume ses_1 --store crib.sqlite3 --host-tools host-tools.yaml
    --adapter model:adapter
    """
    options = replace(options, approver=approver_for(approve, has_store=options.store is not None))
    store = options.store
    address = chosen_url(url)
    if address is None and None in (store, options.adapter):
        raise typer.BadParameter(
            "to resume here, name --store FILE and --adapter MODULE:NAME; on a server, --url URL"
        )
    with open_hosted_service(options, url, token_file, needs_tools=False) as service:
        service.ask("session.resume", {"session_id": session})
        result = service.ask("prompt.resume", {"session_id": session, "waits": False})
    finish_prompt(result, place_of(store, address, token_file), json=json)


def _page(service: ServiceConnection, session: str, after: int) -> list[dict[str, Any]]:
    params = {"session_id": session, "after": after, "limit": PAGE}
    return service.ask("events.list", params)["events"]


def _with_store(service: ServiceConnection, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a session with those of the store: the creation time, and whether it is open."""
    if not isinstance(service, RuntimeConnection):
        return facts
    info = service.store.session(facts["session_id"])
    state = "open" if info.is_open else "closed"
    return {**facts, "state": state, "created_at": info.created_at}


def _open_calls(service: ServiceConnection, session: str) -> list[dict[str, Any]]:
    # Without the arguments of an open call, which are not redacted.
    if not isinstance(service, RuntimeConnection):
        return []
    calls = service.store.open_calls(session)
    return [{"call_id": call.call_id, "tool": call.tool.id, "state": call.state} for call in calls]
