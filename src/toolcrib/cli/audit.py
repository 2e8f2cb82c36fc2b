"""`toolcrib audit`: list calls, sum their cost, prove that ledgers are whole, and read them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolcrib.cli.calls import query, usage
from toolcrib.cli.output import Exit, fail, show, show_json, show_json_line, show_note
from toolcrib.cli.store_options import (
    AnySession,
    Json,
    OneSession,
    StoreOption,
    open_store,
    time_text,
)
from toolcrib.errors import LedgerBroken, SessionNotFound, UsageError

if TYPE_CHECKING:
    from toolcrib.ledger.record import Head, Record
    from toolcrib.store.kept_store import KeptStore

app = typer.Typer(
    help="List calls and their cost, and prove that ledgers are whole.", no_args_is_help=True
)

LOOK_SECONDS: Final = 0.5
"""How often `tail --follow` looks for more."""


app.command("query")(query)
app.command("usage")(usage)


@app.command()
def keygen(
    out: Annotated[
        Path, typer.Argument(metavar="FILE", help="The private key; the public one is FILE.pub.")
    ],
) -> None:
    """Make an Ed25519 key that signs heads. Keep FILE secret and FILE.pub where heads are checked.

    Example: toolcrib audit keygen anchor.key
    """
    from toolcrib.store.anchors import AnchorKey

    try:
        show(AnchorKey.create(out).fingerprint)
    except (UsageError, OSError) as error:
        fail(str(error))


@app.command()
def head(
    store: StoreOption,
    session: OneSession,
    sign: Annotated[
        Path | None,
        typer.Option("--sign", metavar="KEY", help="Print an anchor, signed with this key."),
    ] = None,
    json: Json = False,
) -> None:
    """Print where a ledger ends, to be kept elsewhere: session, number and hash.

    Example: toolcrib audit head --store crib.sqlite3 --session ses_1 >> heads.txt
    """
    from toolcrib.store.anchors import FIRST, Anchor, AnchorKey

    with open_store(store) as crib:
        head = crib.head(session)
        key = None if sign is None else AnchorKey.load(sign)
    if head is None:
        fail(f"the ledger of session {session} is empty; there is nothing to prove")
    if key is not None:
        show(Anchor(1, time.time(), FIRST, (head,)).signed(key).line())
    elif json:
        show_json(head)
    else:
        show(str(head))


@app.command("verify")
def verify_command(
    store: StoreOption,
    session: AnySession = None,
    head_line: Annotated[
        str | None, typer.Option("--head", metavar="HEAD", help="A head kept elsewhere.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--head-file", exists=True, dir_okay=False, help="A file with one head a line."
        ),
    ] = None,
    anchors: Annotated[
        Path | None,
        typer.Option(
            "--anchors", exists=True, dir_okay=False, help="A file with one anchor a line."
        ),
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(
            "--public-key",
            exists=True,
            dir_okay=False,
            help="The key that signed the anchors.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check hash chains, of all sessions or of one; status 1 names the first record that is wrong.

    Artifacts and settings are checked with the records that name them. A chain alone shows edits,
    deletions and insertions. That no end was cut off, and that the whole was not made anew, shows
    only against a head or a signed anchor that was kept elsewhere.

    Example: toolcrib audit verify --store crib.sqlite3 --head-file heads.txt

    Example: toolcrib audit verify --store crib.sqlite3 --anchors anchors --public-key key.pub
    """
    with open_store(store) as crib:
        kept = [*_heads(head_line, file), *_anchored(anchors, public_key)]
        heads = [head for head in kept if session in (None, head.session_id)]
        known = [session] if session else _session_ids(crib)
        ids = dict.fromkeys([*known, *(head.session_id for head in heads)])
        checked = (_checked(crib, session_id, heads) for session_id in ids)
        # One that retention deleted since the listing is no fault, unless somebody asks for it.
        asked = {session, *(head.session_id for head in heads)}
        results = [each for each in checked if not each.is_gone or each.session_id in asked]
        stray = 0 if session else crib.stray_calls()
    _show_checked(results, stray, json=json)
    if stray or any(result.fault is not None for result in results):
        raise typer.Exit(Exit.FAILED)


def _show_checked(results: list[_Checked], stray: int, *, json: bool) -> None:
    for result in results:
        if result.fault is not None:
            show_note(f"{result.session_id}: {result.fault}", "red")
        elif not json:
            show(str(result.head) if result.head else f"{result.session_id} 0 -")
    if json:
        show_json(results)
    else:
        show_note(_summary(results))
    if stray:
        show_note(
            f"the index has {stray} calls that no ledger has; make it anew with audit reindex",
            "red",
        )


@app.command()
def reindex(
    store: StoreOption,
    prices: Annotated[
        Path | None,
        typer.Option("--prices", exists=True, dir_okay=False, help="Prices of models, as YAML."),
    ] = None,
) -> None:
    """Make the index of calls anew from the ledgers, with the prices of now.

    Example: toolcrib audit reindex --store crib.sqlite3
    """
    from toolcrib.prices.table import read_prices

    table = None
    if prices is not None:
        try:
            table = read_prices(prices)
        except UsageError as error:
            fail(str(error))
    with open_store(store, prices=table) as crib:
        show(f"indexed {crib.reindex()} records")


def _session_ids(store: KeptStore) -> list[str]:
    from toolcrib.store.store import every

    return [info.session_id for info in every(lambda cursor: store.sessions(cursor=cursor))]


@app.command()
def tail(
    store: StoreOption,
    session: OneSession,
    count: Annotated[int, typer.Option("-n", min=1, help="How many records.")] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the last records of a ledger. With --follow, JSON comes as one record a line.

    Example: toolcrib audit tail --store crib.sqlite3 --session ses_1 -n 5 --follow
    """
    with open_store(store) as crib:
        end = crib.head(session)
        after = max(0, end.seq - count) if end else 0
        records = deque(crib.records(session, after=after), maxlen=count)
        if json and not follow:
            show_json([_as_json(record) for record in records])
            return
        _print(records, json=json)
        if follow:
            _follow(crib, session, records[-1].seq if records else 0, json=json)


def _follow(crib: KeptStore, session: str, after: int, *, json: bool) -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        records = list(crib.records(session, after=after))
        _print(records, json=json)
        after = records[-1].seq if records else after


def _print(records: Iterable[Record], *, json: bool) -> None:
    for record in records:
        if json:
            show_json_line(_as_json(record))
            continue
        payload = "(payload deleted)" if record.payload is None else record.payload.decode()
        about = [f"{record.seq:>6}", time_text(record.at), record.kind, record.call_id or "-"]
        show(" ".join([*about, payload]))


def _heads(head_line: str | None, file: Path | None) -> list[Head]:
    from toolcrib.ledger.record import Head

    lines = file.read_text("utf-8").splitlines() if file else []
    if head_line is not None:
        lines.append(head_line)
    return [Head.parse(line) for line in lines if line.strip()]


def _anchored(anchors: Path | None, public_key: Path | None) -> list[Head]:
    """The heads of all anchors in a file, each checked by its signature and its place."""
    from toolcrib.store.anchors import PublicKey, read_anchors

    if anchors is None:
        if public_key is not None:
            raise typer.BadParameter("--public-key checks anchors; give --anchors too")
        return []
    key = None if public_key is None else PublicKey(public_key)
    if key is None:
        show_note("no --public-key: signatures of anchors are not checked", "yellow")
    lines = anchors.read_text("utf-8").splitlines()
    return [head for anchor in read_anchors(lines, key) for head in anchor.heads]


@dataclass(frozen=True, slots=True)
class _Checked:
    """The check of a session: its head and how much there is of it, or its fault."""

    session_id: str
    head: Head | None = None
    fault: str | None = None
    records: int = 0
    deleted_payloads: int = 0
    artifacts: int = 0
    is_gone: bool = False


def _summary(results: list[_Checked]) -> str:
    counts = {
        "sessions": len(results),
        "records": sum(result.records for result in results),
        "deleted payloads": sum(result.deleted_payloads for result in results),
        "artifacts": sum(result.artifacts for result in results),
        "faults": sum(result.fault is not None for result in results),
    }
    return "checked: " + ", ".join(f"{count} {what}" for what, count in counts.items())


def _checked(crib: KeptStore, session_id: str, heads: list[Head]) -> _Checked:
    from toolcrib.store.verification import verify_session

    kept = [head for head in heads if head.session_id == session_id]
    try:
        whole = verify_session(crib, session_id, kept)
        return _Checked(
            session_id,
            whole.head,
            records=whole.records,
            deleted_payloads=whole.deleted_payloads,
            artifacts=whole.artifacts,
        )
    except SessionNotFound:
        return _Checked(session_id, fault="this session is not in the store", is_gone=True)
    except LedgerBroken as error:
        return _Checked(session_id, fault=str(error))


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
