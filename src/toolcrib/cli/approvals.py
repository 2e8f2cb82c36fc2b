"""`toolcrib approvals`: the inbox of a store, from the command line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.approval.decision import Approve, Decided, Decision, Deny
from toolcrib.approval.edit import check_edit
from toolcrib.cli.arguments import read_arguments
from toolcrib.cli.opened import AnySession, By, Json, StoreFile, opened, person, time_text
from toolcrib.cli.streams import note, show, show_json
from toolcrib.errors import InvalidDecision

if TYPE_CHECKING:
    from pathlib import Path

    from toolcrib.approval.request import ApprovalRequest
    from toolcrib.store.sqlite import SqliteStore
    from toolcrib.store.store import ApprovalState, FiledApproval

app = typer.Typer(help="See what waits for a decision, and decide.", no_args_is_help=True)

ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL", help="The request, as listed.")]


@app.command("list")
def list_command(
    store: StoreFile,
    session: AnySession = None,
    is_all: Annotated[bool, typer.Option("--all", help="Decided and used ones too.")] = False,
    json: Json = False,
) -> None:
    """Print the requests that wait, oldest first.

    Example: toolcrib approvals list --store crib.sqlite3
    """
    state: ApprovalState | None = None if is_all else "pending"
    with opened(store) as crib:
        inbox = crib.approvals(session_id=session, state=state)
    if json:
        show_json(inbox)
        return
    for filed in inbox:
        request = filed.request
        about = [request.approval_id, filed.state, request.tool.id, time_text(request.created_at)]
        show(" ".join([*about, _arguments_text(request)]))


@app.command("show")
def show_command(approval: ApprovalId, store: StoreFile, json: Json = False) -> None:
    """Print everything about one request.

    Example: toolcrib approvals show apr_1 --store crib.sqlite3
    """
    with opened(store) as crib:
        filed = _find(crib, approval)
    if json:
        show_json(filed)
        return
    for name, value in _facts(filed):
        show(f"{name + ':':<10} {value}")


@app.command()
def approve(
    approval: ApprovalId,
    store: StoreFile,
    arguments: Annotated[
        str | None, typer.Option("--arguments", help="Run it with these instead: a JSON object.")
    ] = None,
    by: By = None,
) -> None:
    """Let a call run, as it is or with other arguments.

    Example: toolcrib approvals approve apr_1 --store crib.sqlite3
    """
    edited = None if arguments is None else read_arguments(arguments)
    _decide(store, approval, Approve(edited), by)


@app.command()
def deny(
    approval: ApprovalId,
    store: StoreFile,
    reason: Annotated[str, typer.Option("--reason", help="What the model reads.")] = Deny().reason,
    by: By = None,
) -> None:
    """Refuse a call.

    Example: toolcrib approvals deny apr_1 --store crib.sqlite3 --reason "not today"
    """
    _decide(store, approval, Deny(reason), by)


def _decide(store: Path, approval: str, decision: Decision, by: str | None) -> None:
    actor = person(by)
    with opened(store) as crib:
        request = _find(crib, approval).request
        now = time.time()
        if request.deadline is not None and now >= request.deadline:
            raise InvalidDecision(f"request {approval} expired {time_text(request.deadline)}")
        if isinstance(decision, Approve) and decision.arguments is not None:
            check_edit(request, decision.arguments)
        if not crib.decide(Decided(approval, request.digest, decision, actor, now)):
            raise InvalidDecision(f"request {approval} is decided already; a decision is final")
    verb = "approved" if isinstance(decision, Approve) else "denied"
    note(f"{verb} {request.tool.name} ({approval}) as {actor.name}")


def _find(crib: SqliteStore, approval: str) -> FiledApproval:
    filed = crib.approval(approval)
    if filed is None:
        raise InvalidDecision(f"there is no request {approval!r}; see `toolcrib approvals list`")
    return filed


def _facts(filed: FiledApproval) -> list[tuple[str, str]]:
    request = filed.request
    facts = [
        ("request", request.approval_id),
        ("state", filed.state),
        ("session", request.session_id),
        ("call", request.call_id),
        ("tool", f"{request.tool.id} {request.tool.version} ({request.tool.place})"),
        ("arguments", _arguments_text(request)),
        ("rule", request.rule),
        ("reason", request.reason),
        ("asked", time_text(request.created_at)),
    ]
    if request.deadline is not None:
        facts.append(("deadline", time_text(request.deadline)))
    if filed.decided is not None:
        actor = filed.decided.actor
        facts.append(("decided", f"{filed.decided.decision.kind} by {actor.kind} {actor.name}"))
        facts.append(("at", time_text(filed.decided.at)))
    return facts


def _arguments_text(request: ApprovalRequest) -> str:
    from pydantic_core import to_json

    return to_json(request.arguments).decode()
