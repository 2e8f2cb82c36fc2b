"""`toolcrib approvals`: the approval requests of a store or a server."""

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

app = typer.Typer(help="List approval requests, and decide them.", no_args_is_help=True)

ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL", help="The request, as listed.")]


@app.command("list")
def list_command(
    store: OptionalStore = None,
    session: AnySession = None,
    is_all: Annotated[bool, typer.Option("--all", help="Also decided and used ones.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print the pending requests, oldest first.

    Example: toolcrib approvals list --store crib.sqlite3
    """
    with open_service(store, url, token_file) as service:
        params = {"session_id": session, "is_all": is_all}
        requests: list[dict[str, Any]] = service.ask("approvals.list", params)["approvals"]
    if json:
        show_json(requests)
        return
    for request in requests:
        identity = [request["approval_id"], request["state"], request["tool"]]
        created = time_text(request["created_at"])
        show(" ".join([*identity, created, _compact(request["arguments"])]))


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
    with open_service(store, url, token_file) as service:
        request = _ask(service, "approvals.get", {"approval_id": approval})
        if isinstance(service, RuntimeConnection):
            request |= _decision(service, approval)
    if json:
        show_json(request)
        return
    for name, value in _facts(request):
        show(f"{name + ':':<10} {value}")


@app.command()
def approve(
    approval: ApprovalId,
    store: OptionalStore = None,
    arguments: Annotated[
        str | None, typer.Option("--arguments", help="Other arguments for the call: a JSON object.")
    ] = None,
    grant: Annotated[
        Literal["session", "always"] | None,
        typer.Option("--grant", help="Do not ask again for this tool; needs an open session."),
    ] = None,
    by: By = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Approve a call, as it is or with other arguments.

    Example: toolcrib approvals approve apr_1 --store crib.sqlite3
    """
    edited = None if arguments is None else read_arguments(arguments)
    params = {"approval_id": approval, "decision": "approve", "arguments": edited, "grant": grant}
    with open_service(store, url, token_file, by=by) as service:
        _report("approved", _ask(service, "approvals.decide", params))


@app.command()
def deny(
    approval: ApprovalId,
    store: OptionalStore = None,
    reason: Annotated[str | None, typer.Option("--reason", help="For the model to read.")] = None,
    by: By = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Deny a call.

    Example: toolcrib approvals deny apr_1 --store crib.sqlite3 --reason "not today"
    """
    with open_service(store, url, token_file, by=by) as service:
        params = {"approval_id": approval, "decision": "deny", "reason": reason}
        _report("denied", _ask(service, "approvals.decide", params))


def _ask(service: ServiceConnection, operation: str, params: dict[str, Any]) -> dict[str, Any]:
    try:
        return service.ask(operation, params)
    except Refused as refused:
        if refused.kind != "not_found":
            raise
        raise Refused("not_found", f"{refused}; see `toolcrib approvals list --all`") from None


def _decision(service: RuntimeConnection, approval: str) -> dict[str, Any]:
    """Facts that only the store has: the decision, and the tool's version, source and place."""
    filed = service.store.approval(approval)
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


def _report(verb: Literal["approved", "denied"], decided: dict[str, Any]) -> None:
    request = f"{decided['tool']} ({decided['approval_id']})"
    show_note(f"{verb} {request} as {decided['decided_by']}")


def _facts(request: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("request", request["approval_id"]),
        ("state", request["state"]),
        ("session", request["session_id"]),
        ("call", request["call_id"]),
        ("tool", _tool_text(request)),
        ("arguments", _compact(request["arguments"])),
        ("rule", request["rule"]),
        ("reason", request["reason"]),
        ("asked", time_text(request["created_at"])),
        *(("changed", change) for change in request["changes"]),
    ]
    if request["metadata"]:
        facts.append(("details", _compact(request["metadata"])))
    if request["deadline"] is not None:
        facts.append(("deadline", time_text(request["deadline"])))
    if request["decided_by"] is not None:
        facts.append(
            ("decided", f"{request.get('decision') or ''} by {request['decided_by']}".strip())
        )
    return facts


def _tool_text(request: dict[str, Any]) -> str:
    if "place" not in request:
        return request["tool"]
    version = f"version {request['tool_version']}"
    return f"{request['tool']}, {version}, of {request['tool_source']} ({request['place']})"


def _compact(value: Any) -> str:
    return json_text.dumps(value, ensure_ascii=False, separators=(",", ":"))
