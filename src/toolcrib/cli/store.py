"""`toolcrib store`: back up, restore, upgrade and prune a store, while servers use it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolcrib.cli.output import Exit, fail, show, show_json, show_note
from toolcrib.cli.store_options import By, Json, StoreOption, open_store, time_text
from toolcrib.errors import StoreError, UsageError

if TYPE_CHECKING:
    from toolcrib.store.address import StoreAddress
    from toolcrib.store.backup import BackupFacts, StoreFacts
    from toolcrib.store.retention import Pruned

app = typer.Typer(help="Back up, restore, upgrade and prune a store.", no_args_is_help=True)


@app.command()
def info(store: StoreOption, json: Json = False) -> None:
    """Print what a store or a backup holds, in numbers. Nothing is changed.

    Example: toolcrib store info --store crib.sqlite3
    """
    try:
        facts = _facts(store)
    except (StoreError, UsageError) as error:
        fail(str(error))
    if json:
        show_json(facts)
        return
    shown: dict[str, Any] = {
        "file": facts.path + (" (a backup)" if facts.is_backup else ""),
        "schema": f"{facts.schema} of {facts.newest_schema}",
        "size": f"{facts.size / 1e6:.1f} MB, {facts.free / 1e6:.1f} MB of it free",
        "sessions": facts.sessions,
        "records": f"{facts.records}, {facts.deleted_payloads} without payload",
        "from": "-" if facts.oldest_at is None else time_text(facts.oldest_at),
        "to": "-" if facts.newest_at is None else time_text(facts.newest_at),
        "calls": "-" if facts.calls is None else facts.calls,
        "open calls": f"{facts.open_calls}, {facts.vault_files} {_VAULT[_has_files(store)]}",
        "approvals": f"{facts.pending_approvals} pending",
        "grants": facts.grants,
        "artifacts": facts.artifacts,
    }
    for name, value in shown.items():
        show(f"{name + ':':<12}{value}")


@app.command()
def backup(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The backup, a new file.")],
    store: StoreOption,
    json: Json = False,
) -> None:
    """Write a backup of a store to FILE, which must not exist, and check it. Servers go on.

    The backup is one file that only its owner may read. Of an SQLite store it has the secrets of
    open calls; of PostgreSQL they are in it as they are in the database, encrypted.

    Example: toolcrib store backup backups/crib-1.backup --store crib.sqlite3
    """
    try:
        facts = _back_up(store, out)
    except (StoreError, UsageError) as error:
        fail(str(error))
    if json:
        show_json({**asdict(facts), "path": str(facts.path)})
    else:
        show(
            f"{facts.path}: {facts.sessions} sessions, {facts.records} records, "
            f"{facts.size / 1e6:.1f} MB; checked"
        )


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `backup` wrote.")],
    store: StoreOption,
    json: Json = False,
) -> None:
    """Make a store of a backup, after a check. The store must not exist, and a database must be
    empty: nothing is overwritten.

    Example: toolcrib store restore backups/crib-1.backup --store restored.sqlite3
    """
    try:
        facts = _restore(source, store)
    except (StoreError, UsageError) as error:
        fail(str(error))
    if json:
        show_json({**asdict(facts), "path": str(store)})
    else:
        show(f"{store}: {facts.sessions} sessions, {facts.records} records")


@app.command()
def migrate(
    store: StoreOption,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 when there is work to do.")
    ] = False,
) -> None:
    """Bring a store to the schema of this version. Every command that opens a store does the same.

    Example: toolcrib store migrate --check --store crib.sqlite3
    """
    try:
        schema, newest, is_old = _schema(store)
    except (StoreError, UsageError) as error:
        fail(str(error))
    if schema and not is_old:
        show(f"{store} has schema {schema}; there is nothing to do")
        return
    if check and (schema > 0 or not isinstance(store, Path)):
        has = f"has schema {schema}" if schema else "has no tables yet"
        show(f"{store} {has}, this version writes {newest}; it is upgraded")
        if schema:
            show_note(f"back it up first: toolcrib store backup FILE --store {store}")
        raise typer.Exit(Exit.FAILED)
    # A newer one, and a backup, are refused here.
    with open_store(store):
        pass
    show(f"{store}: upgraded from schema {schema} to {newest}")


@app.command()
def prune(
    store: StoreOption,
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="Nothing happened for so long: 90d."),
    ],
    has_sessions: Annotated[
        bool, typer.Option("--sessions", help="Delete whole sessions, not only their payloads.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")
    ] = False,
    by: By = None,
    json: Json = False,
) -> None:
    """Delete the payloads of old sessions, with artifacts and index; their chains still verify.

    Sessions that are open, and those with calls or approvals that wait, are left as they are.

    Example: toolcrib store prune --older-than 90d --dry-run --store crib.sqlite3
    """
    import getpass

    from toolcrib.approval.decision import Actor
    from toolcrib.store.retention import prune as prune_store
    from toolcrib.store.retention import read_retention

    try:
        retention = read_retention(
            {"older_than": older_than, "delete": "sessions" if has_sessions else "payloads"}
        )
    except UsageError as error:
        raise typer.BadParameter(str(error)) from None
    actor = Actor("person", by or getpass.getuser())
    with open_store(store) as crib:
        pruned = prune_store(crib, retention, time.time(), actor, dry_run=dry_run)
    if json:
        show_json({**asdict(pruned), "dry_run": dry_run})
    else:
        _show_pruned(pruned, retention.delete, dry_run=dry_run)


_VAULT: Final = {True: "files in the vault", False: "secrets"}


@app.command()
def key() -> None:
    """Print a new key for the secrets of a store. Every replica gets the same one.

    Example: toolcrib store key > store.key
    """
    from toolcrib.store.cipher import new_key

    show(new_key())


def _facts(store: StoreAddress) -> StoreFacts:
    from toolcrib.store.backup import store_facts
    from toolcrib.store.kept_store import require_postgres

    if isinstance(store, Path):
        if not _is_archive(store):
            return store_facts(store)
        require_postgres()
        from toolcrib.store.postgres.backup import database_backup_facts

        return database_backup_facts(store)
    require_postgres()
    from toolcrib.store.postgres.facts import database_facts

    return database_facts(store.url)


def _back_up(store: StoreAddress, out: Path) -> BackupFacts:
    from toolcrib.store.backup import back_up
    from toolcrib.store.kept_store import require_postgres

    if isinstance(store, Path):
        return back_up(store, out)
    require_postgres()
    from toolcrib.store.postgres.backup import back_up_database

    return back_up_database(store.url, out)


def _restore(source: Path, store: StoreAddress) -> BackupFacts:
    from toolcrib.store.backup import restore as restore_backup
    from toolcrib.store.kept_store import require_postgres

    if isinstance(store, Path):
        if _is_archive(source):
            fail(f"{source} is a backup of PostgreSQL; restore it to --store postgresql://...")
        return restore_backup(source, store)
    require_postgres()
    from toolcrib.store.postgres.backup import restore_database

    return restore_database(source, store.url)


def _schema(store: StoreAddress) -> tuple[int, int, bool]:
    """The schema of a store, the newest, and whether there is something to add to it."""
    from toolcrib.store.kept_store import require_postgres

    if isinstance(store, Path):
        from toolcrib.store.backup import schema_of
        from toolcrib.store.sqlite_schema import SCHEMA_VERSION

        schema = schema_of(store)
        return schema, SCHEMA_VERSION, schema != SCHEMA_VERSION
    require_postgres()
    from toolcrib.store.postgres.facts import schema_state

    state = schema_state(store.url)
    return state.version, state.newest, bool(state.missing)


def _is_archive(path: Path) -> bool:
    """Whether a file is a backup of a store on PostgreSQL, and no SQLite file."""
    from zipfile import is_zipfile

    return path.is_file() and is_zipfile(path)


def _has_files(store: StoreAddress) -> bool:
    """Whether secrets lie in files beside the store, or else in its rows."""
    return isinstance(store, Path) and not _is_archive(store)


def _show_pruned(pruned: Pruned, what: str, *, dry_run: bool) -> None:
    for session_id in pruned.sessions:
        show(session_id)
    verb = "would delete" if dry_run else "deleted"
    what = "payloads of" if what == "payloads" else "all of"
    show_note(f"{verb} {what} {len(pruned.sessions)} sessions, {pruned.records} records")
    for reason, left in (("open", pruned.open), ("waiting", pruned.waiting)):
        if left:
            show_note(f"left as they are, because {reason}: {', '.join(left)}")
