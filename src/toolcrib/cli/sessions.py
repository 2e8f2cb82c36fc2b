"""`toolcrib sessions`: list, show, export and resume the sessions of a store or a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolcrib.cli.approver import ApproveOption, approver_for
from toolcrib.cli.output import show_json, show_json_line, show_text
from toolcrib.cli.results import finish_prompt, place_of
from toolcrib.cli.runtime_options import HOST_OPTIONS, RuntimeOptions, takes_runtime_options
from toolcrib.cli.service import (
    TokenFile,
    Url,
    chosen_url,
    local_store,
    open_hosted_service,
    open_service,
    plain,
)
from toolcrib.cli.store_options import Json, OptionalStore, time_text
from toolcrib.cli.table import Row, moment_text, show_facts, show_table
from toolcrib.terminal_text import STATUS_STYLES

if TYPE_CHECKING:
    from toolcrib.runtime.blocking_operations import BlockingOperations
    from toolcrib.runtime.messages import SessionFacts

app = typer.Typer(help="List sessions, and resume them.", no_args_is_help=True)

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session, as listed.")]

_HEADER: Final = ("session", "state", "owner", "created", "records", "waits")
_WIDEST: Final = (0, 0, 16, 0, 0, 0)
PAGE = 1_000
"""The number of events per request."""


@app.command("list")
def list_command(
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
    owner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Sessions of this principal.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Made from then on: 7d, 2026-11-17.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Made before then.")] = None,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="open (in that process) or closed.")
    ] = None,
    newest_first: Annotated[
        bool, typer.Option("--newest-first", help="The newest first; else the oldest.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="How many at most.")
    ] = None,
    json: Json = False,
) -> None:
    """Print the sessions, oldest first.

    Example: toolcrib sessions list --since 7d --owner alice --store crib.sqlite3
    """
    filters: dict[str, Any] = {
        "owner": owner,
        "since": since,
        "until": until,
        "state": state,
        "newest_first": newest_first,
    }
    with open_service(store, url, token_file) as service:
        every_session = islice(_every_session(service, filters), limit)
        sessions = [_with_store(service, facts) for facts in every_session]
    if json:
        show_json(plain(sessions))
        return
    show_table(_HEADER, [_row(facts) for facts in sessions], widest=_WIDEST)


def _row(facts: SessionFacts) -> Row:
    waits = facts.pending_approvals
    cells = (
        facts.session_id,
        facts.state,
        facts.owner or "-",
        "-" if facts.created_at is None else moment_text(facts.created_at),
        str(facts.last_seq),
        str(waits) if waits else "-",
    )
    return Row(cells, STATUS_STYLES["pending"] if waits else None)


def _every_session(
    service: BlockingOperations, filters: Mapping[str, Any]
) -> Iterator[SessionFacts]:
    cursor: str | None = ""
    while cursor is not None:
        page = service.list_sessions(**filters, cursor=cursor or None, limit=PAGE)
        yield from page.sessions
        cursor = page.cursor


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
        facts = _with_store(service, service.get_session(session))
        waiting = service.list_approvals(session_id=session).approvals
        calls = _open_calls(service, session)
    pending = [request.approval_id for request in waiting]
    if json:
        show_json({"session": plain(facts), "open_calls": calls, "pending": pending})
        return
    show_facts(
        [
            ("session", f"{facts.session_id} ({facts.state})"),
            ("owner", facts.owner or "-"),
            *_times(facts),
            ("records", str(facts.last_seq)),
            ("turn", str(facts.turn)),
            *(("call", f"{call['call_id']} {call['tool']} {call['state']}") for call in calls),
            *(("pending", f"{each.approval_id} {each.tool}") for each in waiting),
        ]
    )


def _times(facts: SessionFacts) -> Iterator[tuple[str, str]]:
    if facts.created_at is not None:
        yield "created", time_text(facts.created_at)
    if facts.last_event_at is not None:
        yield "newest", time_text(facts.last_event_at)


@app.command()
def export(
    session: SessionId, store: OptionalStore = None, url: Url = None, token_file: TokenFile = None
) -> None:
    """Print all events of a session as JSON, one per line.

    Example: toolcrib sessions export ses_1 --store crib.sqlite3 > ses_1.jsonl
    """
    with open_service(store, url, token_file) as service:
        # Refuses a session that does not exist; one without events is only empty.
        service.get_session(session)
        page = service.list_events(session, limit=PAGE)
        while page.events:
            for event in page.events:
                show_json_line(event)
            page = service.list_events(session, after=page.last_seq, limit=PAGE)


@app.command()
def artifact(
    session: SessionId,
    name: Annotated[str, typer.Argument(metavar="ARTIFACT", help="The artifact's id.")],
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Print a whole result that was too long for the model.

    Example: toolcrib sessions artifact ses_1 artifact_call_1 > result.txt
    """
    with open_service(store, url, token_file) as service:
        page = service.artifact(session, name)
        text = page.text
        while page.next_offset is not None:
            page = service.artifact(session, name, offset=page.next_offset)
            text += page.text
    show_text(text)


@app.command()
@takes_runtime_options(*HOST_OPTIONS, "adapter")
def resume(
    options: RuntimeOptions,
    session: SessionId,
    approve: ApproveOption = "ask",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the approvals that it needs, then go on.")
    ] = False,
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
    if address is None and (store is None or not options.has_model):
        raise typer.BadParameter(
            "to resume here, name --store FILE and --adapter MODULE:NAME; on a server, --url URL"
        )
    place = place_of(store, address, token_file)
    with open_hosted_service(options, url, token_file, needs_tools=False) as service:
        service.resume_session(session)
        result = plain(service.resume_prompt(session, waits=False))
        if wait and place is not None and result["status"] == "waiting":
            from toolcrib.cli.decision_wait import prompt_after_decision

            result = prompt_after_decision(service, result, place)
    finish_prompt(result, place, json=json)


def _with_store(service: BlockingOperations, facts: SessionFacts) -> SessionFacts:
    """The facts of a session; in a store, whether any process has it open."""
    store = local_store(service)
    if store is None:
        return facts
    state = "open" if store.session(facts.session_id).is_open else "closed"
    return replace(facts, state=state)


def _open_calls(service: BlockingOperations, session: str) -> list[dict[str, Any]]:
    # Without the arguments of an open call, which are not redacted.
    store = local_store(service)
    calls = [] if store is None else store.open_calls(session)
    return [{"call_id": call.call_id, "tool": call.tool.id, "state": call.state} for call in calls]
