"""`toolcrib approvals`: the inbox of a store or of a server, from the command line."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any, Literal

import typer

from toolcrib.cli.arguments import read_arguments
from toolcrib.cli.output import show, show_json, show_note
from toolcrib.cli.service import (
    OptionalStore,
    RuntimeConnection,
    ServiceConnection,
    TokenFile,
    Url,
    open_service,
)
from toolcrib.cli.store_options import AnySession, By, Json, time_text
from toolcrib.errors import Refused

app = typer.Typer(help="See what waits for a decision, and decide.", no_args_is_help=True)

ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL", help="The request, as listed.")]


@app.command("list")
def list_command(
    store: OptionalStore = None,
    session: AnySession = None,
    is_all: Annotated[bool, typer.Option("--all", help="Decided and used ones too.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print the requests that wait, oldest first.

    Example: toolcrib approvals list --store crib.sqlite3
    """
    with open_service(store, url, token_file) as desk:
        asked = {"session_id": session, "is_all": is_all}
        inbox: list[dict[str, Any]] = desk.ask("approvals.list", asked)["approvals"]
    if json:
        show_json(inbox)
        return
    for each in inbox:
        about = [each["approval_id"], each["state"], each["tool"], time_text(each["created_at"])]
        show(" ".join([*about, _compact(each["arguments"])]))


@app.command("show")
def show_command(
    approval: ApprovalId,
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print everything about one request.

    Example: toolcrib approvals show apr_1 --store crib.sqlite3
    """
    with open_service(store, url, token_file) as desk:
        found = _ask(desk, "approvals.get", {"approval_id": approval})
        if isinstance(desk, RuntimeConnection):
            found |= _decision(desk, approval)
    if json:
        show_json(found)
        return
    for name, value in _facts(found):
        show(f"{name + ':':<10} {value}")


@app.command()
def approve(
    approval: ApprovalId,
    store: OptionalStore = None,
    arguments: Annotated[
        str | None, typer.Option("--arguments", help="Run it with these instead: a JSON object.")
    ] = None,
    grant: Annotated[
        Literal["session", "always"] | None,
        typer.Option("--grant", help="Do not ask again for this tool; where the session is open."),
    ] = None,
    by: By = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Let a call run, as it is or with other arguments.

    Example: toolcrib approvals approve apr_1 --store crib.sqlite3
    """
    edited = None if arguments is None else read_arguments(arguments)
    params = {"approval_id": approval, "decision": "approve", "arguments": edited, "grant": grant}
    with open_service(store, url, token_file, by=by) as desk:
        _told("approved", _ask(desk, "approvals.decide", params))


@app.command()
def deny(
    approval: ApprovalId,
    store: OptionalStore = None,
    reason: Annotated[str | None, typer.Option("--reason", help="What the model reads.")] = None,
    by: By = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Refuse a call.

    Example: toolcrib approvals deny apr_1 --store crib.sqlite3 --reason "not today"
    """
    with open_service(store, url, token_file, by=by) as desk:
        params = {"approval_id": approval, "decision": "deny", "reason": reason}
        _told("denied", _ask(desk, "approvals.decide", params))


def _ask(desk: ServiceConnection, operation: str, params: dict[str, Any]) -> dict[str, Any]:
    try:
        return desk.ask(operation, params)
    except Refused as refused:
        if refused.kind != "not_found":
            raise
        raise Refused("not_found", f"{refused}; see `toolcrib approvals list --all`") from None


def _decision(desk: RuntimeConnection, approval: str) -> dict[str, Any]:
    """What only the store tells: which decision it was, and what exactly it is about."""
    filed = desk.store.approval(approval)
    if filed is None:
        return {}
    tool, decided = filed.request.tool, filed.decided
    return {
        "tool_version": tool.version,
        "tool_source": tool.source,
        "place": tool.place,
        "decision": None if decided is None else decided.decision.kind,
        "decided_at": None if decided is None else decided.at,
    }


def _told(verb: Literal["approved", "denied"], decided: dict[str, Any]) -> None:
    about = f"{decided['tool']} ({decided['approval_id']})"
    show_note(f"{verb} {about} as {decided['decided_by']}")


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("request", found["approval_id"]),
        ("state", found["state"]),
        ("session", found["session_id"]),
        ("call", found["call_id"]),
        ("tool", _tool_text(found)),
        ("arguments", _compact(found["arguments"])),
        ("rule", found["rule"]),
        ("reason", found["reason"]),
        ("asked", time_text(found["created_at"])),
    ]
    if found["metadata"]:
        facts.append(("details", _compact(found["metadata"])))
    if found["deadline"] is not None:
        facts.append(("deadline", time_text(found["deadline"])))
    if found["decided_by"] is not None:
        facts.append(("decided", f"{found.get('decision') or ''} by {found['decided_by']}".strip()))
    return facts


def _tool_text(found: dict[str, Any]) -> str:
    if "place" not in found:
        return found["tool"]
    version = f"version {found['tool_version']}"
    return f"{found['tool']}, {version}, of {found['tool_source']} ({found['place']})"


def _compact(value: Any) -> str:
    return json_text.dumps(value, ensure_ascii=False, separators=(",", ":"))
