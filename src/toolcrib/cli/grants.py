"""`toolcrib grants`: list, show and revoke grants."""

from __future__ import annotations

import json as json_text
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolcrib.cli.output import fail, show_json, show_note
from toolcrib.cli.service import (
    TokenFile,
    Url,
    local_store,
    open_service,
    plain,
)
from toolcrib.cli.store_options import By, Json, OptionalStore, time_text
from toolcrib.cli.table import Row, moment_text, show_facts, show_table
from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.runtime.blocking_operations import BlockingOperations

app = typer.Typer(help="List grants, and revoke them.", no_args_is_help=True)

GrantId = Annotated[str, typer.Argument(metavar="GRANT", help="The grant, as listed.")]

_HEADER: Final = ("grant", "state", "tool", "covers", "ends after", "given by", "arguments")
_WIDEST: Final = (0, 0, 24, 24, 0, 16, 0)
OPERATOR: Final = "operator"
"""The session whose ledger records a revocation when no other ledger can be written."""


@app.command("list")
def list_command(
    store: OptionalStore = None,
    is_all: Annotated[bool, typer.Option("--all", help="Also those that no longer hold.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print the grants that hold now, oldest first.

    Example: toolcrib grants list --store crib.sqlite3
    """
    with open_service(store, url, token_file) as service:
        listed: list[dict[str, Any]] = plain(service.list_grants().grants)
    grants = [grant for grant in listed if is_all or grant["is_live"]]
    if json:
        show_json(grants)
        return
    show_table(_HEADER, [_row(grant) for grant in grants], widest=_WIDEST)


@app.command("show")
def show_command(
    grant: GrantId,
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print everything about one grant.

    Example: toolcrib grants show grant_1 --store crib.sqlite3
    """
    with open_service(store, url, token_file) as service:
        facts: dict[str, Any] = plain(service.get_grant(grant))
    if json:
        show_json(facts)
        return
    show_facts(_facts(facts))


@app.command()
def revoke(
    grant: GrantId,
    store: OptionalStore = None,
    by: By = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """End a grant at once, and record who ended it.

    Example: toolcrib grants revoke grant_1 --store crib.sqlite3
    """
    with open_service(store, url, token_file, by=by) as service:
        listed: list[dict[str, Any]] = plain(service.list_grants().grants)
        matches = [facts for facts in listed if facts["grant_id"] == grant]
        if not matches or not matches[0]["is_live"]:
            fail(f"there is no live grant {grant!r}; see `toolcrib grants list`")
        if local_store(service) is not None:
            _open_ledger(service, matches[0]["session_id"])
        if not service.revoke_grant(grant).was_standing:
            fail(f"the grant {grant!r} ended before it could be revoked")
    show_note(f"revoked {grant}")


def _open_ledger(service: BlockingOperations, session_id: str | None) -> None:
    """Open a session whose ledger can record the revocation: the grant's own, unless the grant is
    for all sessions or another process writes that ledger.
    """
    attempts = [lambda: service.open_session(OPERATOR)]
    if session_id is not None:
        attempts.insert(0, lambda: service.resume_session(session_id))
    for attempt in attempts:
        with suppress(Refused):
            attempt()
            return
    # Revoking matters more than recording it.
    show_note("no ledger can be written now; the revocation is not recorded", "yellow")


def _state(grant: dict[str, Any]) -> str:
    if grant["is_live"]:
        return "live"
    if grant["is_revoked"]:
        return "revoked"
    return "expired" if grant["is_expired"] else "used"


def _whose(grant: dict[str, Any]) -> str:
    """Whose calls the grant covers."""
    match grant["scope"]:
        case "principal":
            return f"principal={grant['principal']}"
        case "session" | "once":
            return f"session={grant['session_id']}"
        case scope:
            return scope


def _row(grant: dict[str, Any]) -> Row:
    state = _state(grant)
    ends: list[str] = []
    if grant["uses_left"] is not None:
        ends.append(f"{grant['uses_left']} uses")
    if grant["expires_at"] is not None:
        ends.append(moment_text(grant["expires_at"]))
    cells = (
        grant["grant_id"],
        state,
        grant["tool"],
        _whose(grant),
        " or ".join(ends) or "never",
        grant["created_by"],
        _compact(grant["arguments"]) if grant["arguments"] else "any",
    )
    return Row(cells, None if state == "live" else "dim")


def _facts(grant: dict[str, Any]) -> list[tuple[str, str]]:
    expires_at, uses_left = grant["expires_at"], grant["uses_left"]
    facts = [
        ("grant", grant["grant_id"]),
        ("state", _state(grant)),
        ("tool", grant["tool"]),
        ("covers", _whose(grant)),
        ("arguments", _compact(grant["arguments"]) if grant["arguments"] else "any"),
        ("uses left", "unlimited" if uses_left is None else str(uses_left)),
        ("expires", "never" if expires_at is None else time_text(expires_at)),
        ("given by", f"{grant['created_by']} at {time_text(grant['created_at'])}"),
    ]
    if grant["is_revoked"]:
        facts.append(("revoked", f"by {grant['revoked_by']} at {time_text(grant['revoked_at'])}"))
    return facts


def _compact(value: Any) -> str:
    return json_text.dumps(value, ensure_ascii=False, separators=(",", ":"))
