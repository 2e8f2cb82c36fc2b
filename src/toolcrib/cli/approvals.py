"""`toolcrib approvals`: the approval requests of a store or a server."""

from __future__ import annotations

import json as json_text
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from toolcrib.cli.arguments import read_arguments
from toolcrib.cli.output import show, show_json, show_json_line, show_note
from toolcrib.cli.service import (
    TokenFile,
    Url,
    chosen_url,
    open_service,
    plain,
)
from toolcrib.cli.store_options import AnySession, By, Json, OptionalStore, time_text
from toolcrib.cli.table import Row, moment_text, show_facts, show_table
from toolcrib.errors import InvalidPolicy, Refused
from toolcrib.terminal_text import STATUS_STYLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolcrib.approval.decision import GrantScope
    from toolcrib.runtime.approval_messages import GrantTerms
    from toolcrib.runtime.blocking_operations import BlockingOperations
    from toolcrib.store.address import StoreAddress

app = typer.Typer(help="List approval requests, and decide them.", no_args_is_help=True)

GrantOption = Annotated[
    Literal["session", "principal", "everyone"] | None,
    typer.Option("--grant", help="Do not ask again for such calls, of whom."),
]
_DECIDED: Final = {
    "approve": "approved",
    "deny": "denied",
    "answer": "answered",
    "expire": "expired",
}
_HEADER: Final = ("request", "state", "tool", "asked by", "asked", "arguments")
_WIDEST: Final = (0, 0, 24, 16, 0, 0)
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
    is_remote = chosen_url(url) is not None
    requests = None if is_all or is_remote else _pending_in(store, session)
    if requests is None:
        with open_service(store, url, token_file) as service:
            requests = _requests(service, session, is_all=is_all)
    if json:
        show_json(requests)
        return
    show_table(_HEADER, [_row(request) for request in requests], widest=_WIDEST)


def _row(request: Mapping[str, Any]) -> Row:
    state = request["state"]
    word = _DECIDED[request["decision"]] if state == "decided" else state
    votes = _votes_text(dict(request))
    cells = (
        request["approval_id"],
        f"{word} {votes}" if votes and state == "pending" else word,
        request["tool"],
        request["caller"]["principal"] or "-",
        moment_text(request["created_at"]),
        _compact(request["arguments"]),
    )
    return Row(cells, STATUS_STYLES.get(word) if state == "pending" else None)


def _pending_in(store: StoreAddress | None, session: str | None) -> list[dict[str, Any]] | None:
    """The requests in the file alone, which is the quick way; None when it does not do."""
    if not isinstance(store, Path):
        return None
    from toolcrib.store.pending_requests import pending_requests

    return pending_requests(store, session, time.time())


def _requests(
    service: BlockingOperations, session: str | None, *, is_all: bool
) -> list[dict[str, Any]]:
    """The requests of all pages."""
    page = service.list_approvals(session_id=session, is_all=is_all)
    requests = list[dict[str, Any]](plain(page.approvals))
    while page.cursor is not None:
        page = service.list_approvals(session_id=session, is_all=is_all, cursor=page.cursor)
        requests += plain(page.approvals)
    return requests


@app.command()
def watch(
    store: OptionalStore = None,
    session: AnySession = None,
    by: By = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Follow new requests until Ctrl-C, and decide them here.

    At a terminal the bell rings for each new request, and it is asked about with the keys of the
    approval prompt; Ctrl-D leaves it open. Elsewhere, and with --json, each is printed on a line.

    Example: toolcrib approvals watch --url http://127.0.0.1:8420
    """
    from toolcrib.cli.approval_watch import watch_requests
    from toolcrib.cli.approver import is_terminal

    def show_new(request: dict[str, Any]) -> None:
        show_json_line(request) if json else show("\t".join(_row(request).cells))

    with open_service(store, url, token_file, by=by) as service, suppress(KeyboardInterrupt):
        watch_requests(service, session, by, None if is_terminal() and not json else show_new)


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
        request = _found(lambda: service.get_approval(approval))
    if json:
        show_json(request)
        return
    show_facts(_facts(request))


@app.command()
def approve(
    approval: ApprovalId,
    store: OptionalStore = None,
    edit: Annotated[
        str | None, typer.Option("--edit", help="Other arguments for the call: a JSON object.")
    ] = None,
    grant: GrantOption = None,
    arguments: Annotated[
        str | None,
        typer.Option("--arguments", help="With --grant: patterns by pointer, a JSON object."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", help="With --grant: 30m, 8h, 7d.")
    ] = None,
    uses: Annotated[
        int | None, typer.Option("--uses", help="With --grant: how many calls.")
    ] = None,
    unlimited: Annotated[
        bool, typer.Option("--unlimited", help="With --grant: no limits, which takes an admin.")
    ] = False,
    preview: Annotated[
        bool,
        typer.Option(
            "--preview", help="Show which past calls --grant would cover; decide nothing."
        ),
    ] = False,
    by: By = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Approve a call, as it is or with other arguments.

    --grant also allows later calls of the tool: of the session, of the principal who asked, or of
    everyone.

    Example: toolcrib approvals approve apr_1 --store crib.sqlite3 --grant principal
    --arguments '{"/path": {"glob": "src/**"}}' --expires 7d
    """
    terms = _grant_terms(grant, arguments, expires, uses, unlimited)
    if preview and terms is None:
        raise typer.BadParameter("--preview shows what a grant would cover; name one with --grant")
    edited = None if edit is None else read_arguments(edit)
    with open_service(store, url, token_file, by=by) as service:
        if preview and terms is not None:
            _show_preview(_found(lambda: service.preview_grant(terms, approval_id=approval)))
            return
        decided = _found(lambda: service.decide(approval, "approve", arguments=edited, grant=terms))
        _report("approved", decided)


@app.command()
def answer(
    approval: ApprovalId,
    value: Annotated[str, typer.Argument(metavar="JSON", help="What replaces the result.")],
    store: OptionalStore = None,
    by: By = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Answer in the tool's place: the call does not run, and JSON is its result.

    Example: toolcrib approvals answer apr_1 '{"order": "PO-9"}' --store crib.sqlite3
    """
    try:
        result = json_text.loads(value)
    except ValueError as error:
        raise typer.BadParameter(f"the answer is not JSON: {error}") from None
    with open_service(store, url, token_file, by=by) as service:
        _report("answered", _found(lambda: service.decide(approval, "answer", value=result)))


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
        _report("denied", _found(lambda: service.decide(approval, "deny", reason=reason)))


def _found(operate: Callable[[], object]) -> dict[str, Any]:
    """The result of an operation on one request, with a hint when there is no such request."""
    try:
        return plain(operate())
    except Refused as refused:
        if refused.kind != "not_found":
            raise
        raise Refused("not_found", f"{refused}; see `toolcrib approvals list --all`") from None


def _grant_terms(
    scope: GrantScope | None,
    arguments: str | None,
    expires: str | None,
    uses: int | None,
    unlimited: bool,
) -> GrantTerms | None:
    if scope is None:
        if arguments is not None:
            raise typer.BadParameter(
                "--arguments are the patterns of a --grant; change the call's own with --edit"
            )
        if expires is not None or uses is not None or unlimited:
            raise typer.BadParameter("--expires, --uses and --unlimited limit a --grant; name one")
        return None
    from toolcrib.approval.duration import read_duration

    try:
        lifetime = None if expires is None else read_duration(expires)
    except InvalidPolicy as error:
        raise typer.BadParameter(f"--expires: {error}") from None
    from toolcrib.runtime.approval_messages import GrantTerms

    return GrantTerms(
        scope=scope,
        arguments={} if arguments is None else read_arguments(arguments),
        expires_in_seconds=lifetime,
        uses=uses,
        unlimited=unlimited,
    )


def _show_preview(preview: dict[str, Any]) -> None:
    for call in preview["covered"]:
        facts = [time_text(call["at"]), f"by={call['principal'] or '-'}", call["session_id"]]
        show(" ".join([*facts, call["call_id"], _compact(call["arguments"])]))
    if preview["covers_request"] is False:
        show_note("the grant would not cover this very call", "yellow")
    for pointer in preview["unknown_arguments"]:
        show_note(f"the tool has no argument {pointer}; such a grant covers nothing", "yellow")
    counts = f"{preview['covered_count']} of {preview['looked_at']}"
    show_note(f"it would have covered {counts} past calls; nothing is decided")


def _report(verb: Literal["approved", "denied", "answered"], decided: dict[str, Any]) -> None:
    request = f"{decided['tool']} ({decided['approval_id']})"
    if decided["state"] == "pending":
        show_note(f"{verb} {request}; it waits for more approvers: {_votes_text(decided)}")
        return
    show_note(f"{verb} {request} as {decided['decided_by']}")


def _votes_text(request: dict[str, Any]) -> str:
    """The votes that there are and those that a request needs: `1/2 (ada)`."""
    needed = max((quorum["count"] for quorum in request["approvers"]), default=1)
    votes = [vote["by"] for vote in request["votes"]]
    if needed < 2:
        return ""
    return f"{len(votes)}/{needed}" + (f" ({', '.join(votes)})" if votes else "")


def _asker_text(caller: dict[str, Any]) -> str:
    from toolcrib.approval.caller import Caller

    return Caller(
        caller["principal"], caller["transport"], caller["is_model"], frozenset(caller["groups"])
    ).text()


def _facts(request: dict[str, Any]) -> list[tuple[str, str]]:
    from toolcrib.approval.quorum import Quorum, quorum_text

    facts = [
        ("request", request["approval_id"]),
        ("state", request["state"]),
        ("session", request["session_id"]),
        ("call", request["call_id"]),
        ("tool", _tool_text(request)),
        ("arguments", _compact(request["arguments"])),
        ("asked by", _asker_text(request["caller"])),
        ("rule", request["rule"]),
        ("reason", request["reason"]),
        ("asked", time_text(request["created_at"])),
        *(("changed", change) for change in request["changes"]),
    ]
    if request["metadata"]:
        facts.append(("details", _compact(request["metadata"])))
    if request["deadline"] is not None:
        facts.append(("deadline", time_text(request["deadline"])))
    if request.get("approvable_at") is not None:
        facts.append(("approvable", f"from {time_text(request['approvable_at'])} on"))
    for quorum in request["approvers"]:
        facts.append(("approvers", quorum_text(Quorum(quorum["count"], tuple(quorum["groups"])))))
    for vote in request["votes"]:
        facts.append(("vote", f"{vote['by']} at {time_text(vote['at'])}"))
    if request["edited_arguments"] is not None:
        facts.append(("edited", _compact(request["edited_arguments"])))
    if request["decided_by"] is not None:
        facts.append(("decided", f"{request['decision']} by {request['decided_by']}"))
    return facts


def _tool_text(request: dict[str, Any]) -> str:
    version = f"version {request['tool_version']}"
    return f"{request['tool']}, {version}, of {request['tool_source']} ({request['place']})"


def _compact(value: Any) -> str:
    return json_text.dumps(value, ensure_ascii=False, separators=(",", ":"))
