"""`toolcrib grants`: standing permissions, and taking them back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from toolcrib.cli.opened import Json, StoreFile, opened, time_text
from toolcrib.cli.streams import fail, note, show, show_json

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant

app = typer.Typer(help="See standing permissions, and take them back.", no_args_is_help=True)


@app.command("list")
def list_command(
    store: StoreFile,
    is_all: Annotated[bool, typer.Option("--all", help="Dead ones too.")] = False,
    json: Json = False,
) -> None:
    """Print the grants that hold now, oldest first.

    Example: toolcrib grants list --store crib.sqlite3
    """
    now = time.time()
    with opened(store) as crib:
        grants = [grant for grant in crib.grants() if is_all or grant.is_live(now)]
    if json:
        show_json(grants)
        return
    for grant in grants:
        show(_line(grant, now))


@app.command()
def revoke(
    grant: Annotated[str, typer.Argument(metavar="GRANT", help="The grant, as listed.")],
    store: StoreFile,
) -> None:
    """End a grant at once.

    Example: toolcrib grants revoke grant_1 --store crib.sqlite3
    """
    with opened(store) as crib:
        if not crib.revoke_grant(grant, time.time()):
            fail(f"there is no live grant {grant!r}; see `toolcrib grants list`")
    note(f"revoked {grant}")


def _line(grant: Grant, now: float) -> str:
    facts = [grant.grant_id, "live" if grant.is_live(now) else "dead", grant.tool_id, grant.scope]
    if grant.session_id is not None:
        facts.append(f"session={grant.session_id}")
    if grant.uses_left is not None:
        facts.append(f"uses_left={grant.uses_left}")
    if grant.expires_at is not None:
        facts.append(f"expires={time_text(grant.expires_at)}")
    facts.append(f"by={grant.created_by.name}")
    return " ".join(facts)
