"""`toolcrib sessions`: what a store holds."""

from __future__ import annotations

from typing import Annotated

import typer

from toolcrib.cli.opened import Json, StoreFile, opened, time_text
from toolcrib.cli.streams import show, show_json

app = typer.Typer(help="See the sessions of a store.", no_args_is_help=True)


@app.command("list")
def list_command(store: StoreFile, json: Json = False) -> None:
    """Print every session, oldest first.

    Example: toolcrib sessions list --store crib.sqlite3
    """
    with opened(store) as crib:
        sessions = crib.sessions()
    if json:
        show_json(sessions)
        return
    for info in sessions:
        state = "open" if info.is_open else "closed"
        records = info.head.seq if info.head else 0
        show(f"{info.session_id} {state} {time_text(info.created_at)} records={records}")


@app.command("show")
def show_command(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session, as listed.")],
    store: StoreFile,
    json: Json = False,
) -> None:
    """Print one session with its open calls and what waits for a decision.

    Example: toolcrib sessions show ses_1 --store crib.sqlite3
    """
    with opened(store) as crib:
        info = crib.session(session)
        calls = crib.open_calls(session)
        waiting = crib.approvals(session_id=session, state="pending")
    # The arguments of an open call are the real ones, secrets included; they are not shown.
    open_calls = [
        {"call_id": call.call_id, "tool": call.tool.id, "state": call.state} for call in calls
    ]
    pending = [filed.request.approval_id for filed in waiting]
    if json:
        show_json({"session": info, "open_calls": open_calls, "pending": pending})
        return
    show(f"session:  {info.session_id} ({'open' if info.is_open else 'closed'})")
    show(f"created:  {time_text(info.created_at)}")
    show(f"head:     {info.head or 'none'}")
    for call in open_calls:
        show(f"call:     {call['call_id']} {call['tool']} {call['state']}")
    for approval_id in pending:
        show(f"pending:  {approval_id}")
