"""`toolcrib grants`: list and revoke grants."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from toolcrib.cli.output import fail, show, show_json, show_note
from toolcrib.cli.service import (
    OptionalStore,
    RuntimeConnection,
    ServiceConnection,
    TokenFile,
    Url,
    open_service,
)
from toolcrib.cli.store_options import By, Json, time_text
from toolcrib.errors import Refused

app = typer.Typer(help="List grants, and revoke them.", no_args_is_help=True)

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
    now = time.time()
    with open_service(store, url, token_file) as service:
        listed: list[dict[str, Any]] = service.ask("grants.list")["grants"]
    grants = [grant for grant in listed if is_all or _is_live(grant, now)]
    if json:
        show_json(grants)
        return
    for grant in grants:
        show(_line(grant, now))


@app.command()
def revoke(
    grant: Annotated[str, typer.Argument(metavar="GRANT", help="The grant, as listed.")],
    store: OptionalStore = None,
    by: By = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """End a grant at once, and record who ended it.

    Example: toolcrib grants revoke grant_1 --store crib.sqlite3
    """
    with open_service(store, url, token_file, by=by) as service:
        listed: list[dict[str, Any]] = service.ask("grants.list")["grants"]
        matches = [facts for facts in listed if facts["grant_id"] == grant]
        if not matches or not _is_live(matches[0], time.time()):
            fail(f"there is no live grant {grant!r}; see `toolcrib grants list`")
        if isinstance(service, RuntimeConnection):
            _open_ledger(service, matches[0]["session_id"])
        if not service.ask("grants.revoke", {"grant_id": grant})["was_standing"]:
            fail(f"the grant {grant!r} ended before it could be revoked")
    show_note(f"revoked {grant}")


def _open_ledger(service: ServiceConnection, session_id: str | None) -> None:
    """Open a session whose ledger can record the revocation: the grant's own, unless the grant is
    for all sessions or another process writes that ledger.
    """
    attempts = [("session.resume", OPERATOR), ("session.create", OPERATOR)]
    if session_id is not None:
        attempts.insert(0, ("session.resume", session_id))
    for operation, attempted_id in attempts:
        try:
            service.ask(operation, {"session_id": attempted_id})
        except Refused:
            continue
        return
    # Revoking matters more than recording it.
    show_note("no ledger can be written now; the revocation is not recorded", "yellow")


def _is_live(grant: dict[str, Any], now: float) -> bool:
    is_expired = grant["expires_at"] is not None and now >= grant["expires_at"]
    is_spent = grant["uses_left"] is not None and grant["uses_left"] <= 0
    return not (grant["is_revoked"] or is_expired or is_spent)


def _line(grant: dict[str, Any], now: float) -> str:
    state = "live" if _is_live(grant, now) else "dead"
    facts = [grant["grant_id"], state, grant["tool"], grant["scope"]]
    if grant["session_id"] is not None:
        facts.append(f"session={grant['session_id']}")
    if grant["uses_left"] is not None:
        facts.append(f"uses_left={grant['uses_left']}")
    if grant["expires_at"] is not None:
        facts.append(f"expires={time_text(grant['expires_at'])}")
    facts.append(f"by={grant['created_by']}")
    return " ".join(facts)
