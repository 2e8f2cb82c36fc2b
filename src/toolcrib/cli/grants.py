"""`toolcrib grants`: standing permissions, and taking them back."""

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

app = typer.Typer(help="See standing permissions, and take them back.", no_args_is_help=True)

OPERATOR: Final = "operator"
"""The session whose ledger has what was done where no other session's could be written."""


@app.command("list")
def list_command(
    store: OptionalStore = None,
    is_all: Annotated[bool, typer.Option("--all", help="Dead ones too.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print the grants that hold now, oldest first.

    Example: toolcrib grants list --store crib.sqlite3
    """
    now = time.time()
    with open_service(store, url, token_file) as desk:
        found: list[dict[str, Any]] = desk.ask("grants.list")["grants"]
    grants = [grant for grant in found if is_all or _is_live(grant, now)]
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
    """End a grant at once, and write down who did.

    Example: toolcrib grants revoke grant_1 --store crib.sqlite3
    """
    with open_service(store, url, token_file, by=by) as desk:
        known: list[dict[str, Any]] = desk.ask("grants.list")["grants"]
        found = [each for each in known if each["grant_id"] == grant]
        if not found or not _is_live(found[0], time.time()):
            fail(f"there is no live grant {grant!r}; see `toolcrib grants list`")
        if isinstance(desk, RuntimeConnection):
            _open_ledger(desk, found[0]["session_id"])
        if not desk.ask("grants.revoke", {"grant_id": grant})["was_standing"]:
            fail(f"the grant {grant!r} ended before it could be revoked")
    show_note(f"revoked {grant}")


def _open_ledger(desk: ServiceConnection, session_id: str | None) -> None:
    """Open a session whose ledger can take the revocation: the grant's own, unless it is for all
    sessions or another process writes it.
    """
    ways = [("session.resume", OPERATOR), ("session.create", OPERATOR)]
    if session_id is not None:
        ways.insert(0, ("session.resume", session_id))
    for operation, opened in ways:
        try:
            desk.ask(operation, {"session_id": opened})
        except Refused:
            continue
        return
    # Whoever must be stopped is stopped, recorded or not.
    show_note("no ledger can be written now; nothing will tell who revoked it", "yellow")


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
