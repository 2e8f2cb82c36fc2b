"""`toolcrib store`: back up, restore, upgrade and prune a store, while servers use it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.output import Exit, fail, show, show_json, show_note
from toolcrib.cli.store_options import By, Json, StoreFile, open_store, time_text
from toolcrib.errors import StoreError, UsageError

if TYPE_CHECKING:
    from toolcrib.store.retention import Pruned

app = typer.Typer(help="Back up, restore, upgrade and prune a store.", no_args_is_help=True)


@app.command()
def info(store: StoreFile, json: Json = False) -> None:
    """Print what a store or a backup holds, in numbers. Nothing is changed.

    Example: toolcrib store info --store crib.sqlite3
    """
    from toolcrib.store.backup import store_facts

    try:
        facts = store_facts(store)
    except StoreError as error:
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
        "open calls": f"{facts.open_calls}, {facts.vault_files} files in the vault",
        "approvals": f"{facts.pending_approvals} pending",
        "grants": facts.grants,
        "artifacts": facts.artifacts,
    }
    for name, value in shown.items():
        show(f"{name + ':':<12}{value}")


@app.command()
def backup(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The backup, a new file.")],
    store: StoreFile,
    json: Json = False,
) -> None:
    """Write a backup of a store to FILE, which must not exist, and check it. Servers go on.

    The backup is one file that only its owner may read, with the secrets of open calls.

    Example: toolcrib store backup backups/crib-1.backup --store crib.sqlite3
    """
    from toolcrib.store.backup import back_up

    try:
        facts = back_up(store, out)
    except StoreError as error:
        fail(str(error))
    if json:
        show_json(asdict(facts))
    else:
        show(
            f"{facts.path}: {facts.sessions} sessions, {facts.records} records, "
            f"{facts.size / 1e6:.1f} MB; checked"
        )


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `backup` wrote.")],
    store: StoreFile,
    json: Json = False,
) -> None:
    """Make a store of a backup, after a check. The store must not exist: nothing is overwritten.

    Example: toolcrib store restore backups/crib-1.backup --store restored.sqlite3
    """
    from toolcrib.store.backup import restore as restore_backup

    try:
        facts = restore_backup(source, store)
    except StoreError as error:
        fail(str(error))
    if json:
        show_json(asdict(facts))
    else:
        show(f"{facts.path}: {facts.sessions} sessions, {facts.records} records")


@app.command()
def migrate(
    store: StoreFile,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 when there is work to do.")
    ] = False,
) -> None:
    """Bring a store to the schema of this version. Every command that opens a store does the same.

    Example: toolcrib store migrate --check --store crib.sqlite3
    """
    from toolcrib.store.backup import schema_of
    from toolcrib.store.sqlite_schema import SCHEMA_VERSION

    try:
        schema = schema_of(store)
    except StoreError as error:
        fail(str(error))
    if schema == SCHEMA_VERSION:
        show(f"{store} has schema {schema}; there is nothing to do")
        return
    if check and 0 < schema < SCHEMA_VERSION:
        show(f"{store} has schema {schema}, this version writes {SCHEMA_VERSION}; it is upgraded")
        show_note(f"back it up first: toolcrib store backup FILE --store {store}")
        raise typer.Exit(Exit.FAILED)
    # A newer one, and a backup, are refused here.
    with open_store(store):
        pass
    show(f"{store}: upgraded from schema {schema} to {SCHEMA_VERSION}")


@app.command()
def prune(
    store: StoreFile,
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


def _show_pruned(pruned: Pruned, what: str, *, dry_run: bool) -> None:
    for session_id in pruned.sessions:
        show(session_id)
    verb = "would delete" if dry_run else "deleted"
    what = "payloads of" if what == "payloads" else "all of"
    show_note(f"{verb} {what} {len(pruned.sessions)} sessions, {pruned.records} records")
    for reason, left in (("open", pruned.open), ("waiting", pruned.waiting)):
        if left:
            show_note(f"left as they are, because {reason}: {', '.join(left)}")
