"""`toolcrib audit`: prove that a ledger is whole, and read its end."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.opened import AnySession, Json, OneSession, StoreFile, opened, time_text
from toolcrib.cli.streams import fail, note, show, show_json
from toolcrib.errors import LedgerBroken, SessionNotFound
from toolcrib.session.record import Head, Record, verify

if TYPE_CHECKING:
    from toolcrib.store.sqlite import SqliteStore

app = typer.Typer(help="Prove that ledgers are whole, and read them.", no_args_is_help=True)


@app.command()
def head(store: StoreFile, session: OneSession) -> None:
    """Print where a ledger ends, to be kept elsewhere: session, number and hash.

    Example: toolcrib audit head --store crib.sqlite3 --session ses_1 >> heads.txt
    """
    with opened(store) as crib:
        found = crib.head(session)
    if found is None:
        fail(f"the ledger of session {session} is empty; there is nothing to prove")
    show(str(found))


@app.command("verify")
def verify_command(
    store: StoreFile,
    session: AnySession = None,
    kept: Annotated[
        str | None, typer.Option("--head", metavar="HEAD", help="A head kept elsewhere.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--head-file", exists=True, dir_okay=False, help="A file with one head a line."
        ),
    ] = None,
) -> None:
    """Check hash chains, of all sessions or of one; status 1 names the first record that is wrong.

    A chain alone shows edits, deletions and insertions. That no end was cut off, and that the
    whole was not made anew, shows only against a head that was kept elsewhere.

    Example: toolcrib audit verify --store crib.sqlite3 --head-file heads.txt
    """
    with opened(store) as crib:
        heads = [each for each in _heads(kept, file) if session in (None, each.session_id)]
        known = [session] if session else [info.session_id for info in crib.sessions()]
        ids = dict.fromkeys([*known, *(each.session_id for each in heads)])
        broken = [each for each in ids if not _is_whole(crib, each, heads)]
    if broken:
        raise typer.Exit(1)


@app.command()
def tail(
    store: StoreFile,
    session: OneSession,
    count: Annotated[int, typer.Option("-n", min=1, help="How many records.")] = 20,
    json: Json = False,
) -> None:
    """Print the last records of a ledger.

    Example: toolcrib audit tail --store crib.sqlite3 --session ses_1 -n 5
    """
    with opened(store) as crib:
        end = crib.head(session)
        after = max(0, end.seq - count) if end else 0
        records = deque(crib.records(session, after=after), maxlen=count)
    if json:
        show_json([_as_json(record) for record in records])
        return
    for record in records:
        payload = "(payload deleted)" if record.payload is None else record.payload.decode()
        about = [f"{record.seq:>6}", time_text(record.at), record.kind, record.call_id or "-"]
        show(" ".join([*about, payload]))


def _heads(kept: str | None, file: Path | None) -> list[Head]:
    lines = file.read_text("utf-8").splitlines() if file else []
    if kept is not None:
        lines.append(kept)
    return [Head.parse(line) for line in lines if line.strip()]


def _is_whole(crib: SqliteStore, session_id: str, heads: list[Head]) -> bool:
    try:
        end = crib.head(session_id)
        for kept in heads:
            if kept.session_id == session_id:
                verify(crib.records(session_id), kept)
        verified = verify(crib.records(session_id), end)
    except SessionNotFound:
        note(f"{session_id}: this session is not in the store", "red")
        return False
    except LedgerBroken as error:
        note(f"{session_id}: {error}", "red")
        return False
    show(str(verified) if verified else f"{session_id} 0 -")
    return True


def _as_json(record: Record) -> dict[str, Any]:
    from pydantic_core import from_json

    return {
        "session_id": record.session_id,
        "seq": record.seq,
        "kind": record.kind,
        "at": record.at,
        "call_id": record.call_id,
        "payload": None if record.payload is None else from_json(record.payload),
        "hash": record.hash,
    }
