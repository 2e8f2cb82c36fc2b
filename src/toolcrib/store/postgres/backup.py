"""Backups of a store on PostgreSQL: one file, by COPY, with no program of the server's.

The file is a ZIP archive: each table as a binary COPY, the heads of all sessions, and a manifest.
It holds the store as it was at one moment, while replicas write. Secrets stay encrypted: the key
of the store is not in it. Replicas and leases are left out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, is_zipfile

from toolcrib.errors import LedgerBroken, StoreError
from toolcrib.ledger.record import ChainCheck, Head, Record
from toolcrib.store.backup import BackupFacts, StoreFacts
from toolcrib.store.postgres.database import PostgresDatabase
from toolcrib.store.postgres.facts import counted, use_database
from toolcrib.store.postgres.partitions import ensure_week
from toolcrib.store.postgres.schema import (
    SCHEMA_LOCK,
    applied_steps,
    apply_step,
    migrations,
    newest_version,
    schema_version,
)
from toolcrib.store.whole_file import write_whole

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

_FORMAT: Final = "toolcrib-postgres-backup 1"
_LEFT_OUT: Final = ("schema_version", "replicas", "inbox_versions")
_NOT_KEPT: Final[dict[str, dict[str, str]]] = {
    "sessions": {"replica_id": "NULL::text", "taken_from": "NULL::text"}
}
"""What of a row is not true any more in a restored store."""
_FENCE_STEP: Final = 2**32
"""More leases than a store gives out between a backup and its restore."""
_CHUNK: Final = 1 << 20
_ROWS_AT_ONCE: Final = 500

_TABLES: Final = """
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attgenerated = ''
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition
GROUP BY c.relname ORDER BY c.relname <> 'sessions', c.relname
"""
_IDENTITIES: Final = """
SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = current_schema()::regnamespace AND a.attidentity <> ''
    AND NOT c.relispartition
"""
_HEADS: Final = "SELECT session_id, head_seq, head_hash FROM sessions ORDER BY born, number"
_RECORDS: Final = """
SELECT s.session_id, r.seq, r.kind, r.at, r.call_id, p.payload, r.payload_digest, r.previous, r.hash
FROM records r JOIN sessions s ON s.born = r.born AND s.number = r.session
LEFT JOIN payloads p ON p.born = r.born AND p.session = r.session AND p.seq = r.seq
ORDER BY r.born, r.session, r.seq
"""


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What a backup says of itself."""

    format: str
    schema: list[int]
    """The numbers of the steps that its tables have."""
    weeks: list[int]
    fences: int
    """The last fence that was given out."""
    tables: dict[str, dict[str, Any]]
    """Of each table its columns, and the SHA-256 of its rows."""
    heads: str
    """The SHA-256 of the heads."""
    facts: dict[str, Any]


def is_database_backup(path: Path) -> bool:
    """Whether a file is a backup of a store on PostgreSQL."""
    return path.is_file() and is_zipfile(path)


def back_up_database(url: str, target: Path) -> BackupFacts:
    """Write a backup of the store in a database, which may be in use, to a new file. Raises
    `StoreError` when there is a file already, or the chain of a session does not verify.
    """

    def write(partial: Path) -> StoreFacts:
        async def work(connection: DatabaseConnection, database: PostgresDatabase) -> StoreFacts:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                facts = await counted(connection, database.shown)
                with ZipFile(partial, "w", ZIP_DEFLATED, compresslevel=1) as archive:
                    await _write_archive(connection, archive, facts)
                return facts

        facts = use_database(url, work)
        with ZipFile(partial) as archive:
            _check_digests(archive, _manifest(archive))
        return facts

    facts = write_whole(target, write)
    return _backup_facts(target, facts, target.stat().st_size)


async def _write_archive(
    connection: DatabaseConnection, archive: ZipFile, facts: StoreFacts
) -> None:
    tables: dict[str, dict[str, Any]] = {}
    for name, columns in await connection.fetch(_TABLES):
        if name in _LEFT_OUT:
            continue
        replaced = _NOT_KEPT.get(name, {})
        fields = ", ".join(str(replaced.get(each, each)) for each in columns)
        with archive.open(f"tables/{name}", "w", force_zip64=True) as member:
            rows = _Digested(member)
            await connection.copy_from_query(
                f"SELECT {fields} FROM {name}", output=rows.take, format="binary"
            )
        tables[name] = {"columns": list(columns), "sha256": rows.digest}
    with archive.open("heads", "w", force_zip64=True) as member:
        heads = _Digested(member)
        await _check_chains(connection, heads)
    manifest = _Manifest(
        format=_FORMAT,
        schema=await applied_steps(connection),
        weeks=[
            row[0]
            for row in await connection.fetch("SELECT DISTINCT born FROM sessions ORDER BY born")
        ],
        fences=await connection.fetchval("SELECT last_value FROM fences"),
        tables=tables,
        heads=heads.digest,
        facts=asdict(facts),
    )
    archive.writestr("manifest.json", json.dumps(asdict(manifest), indent=1))


class _Digested:
    """Bytes on their way into the archive, if there is one, with the digest of all of them."""

    def __init__(self, member: IO[bytes] | None = None) -> None:
        self._member = member
        self._hash = sha256()

    async def take(self, data: bytes) -> None:
        self.write(data)

    def write(self, data: bytes) -> None:
        self._hash.update(data)
        if self._member is not None:
            self._member.write(data)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


async def _check_chains(connection: DatabaseConnection, heads: _Digested) -> None:
    """Verify every session to its head, in the transaction of the caller, and write the heads as
    `toolcrib audit head` prints them. Raises `StoreError`.
    """
    records = aiter(connection.cursor(_RECORDS, prefetch=_ROWS_AT_ONCE))
    row = await anext(records, None)
    async for session_id, seq, digest in connection.cursor(_HEADS, prefetch=_ROWS_AT_ONCE):
        head = Head(session_id, seq, digest.hex())
        chain = ChainCheck([head] if seq else [])
        try:
            while row is not None and row[0] == session_id:
                if row[1] > seq:
                    raise LedgerBroken(f"record {row[1]} lies behind its end", seq=row[1])
                chain.take(_record(row))
                row = await anext(records, None)
            chain.end()
        except LedgerBroken as error:
            raise StoreError(
                f"session {session_id!r} does not verify: {error}; run `toolcrib audit verify` on "
                "the store"
            ) from None
        heads.write(f"{head}\n".encode())


def _record(row: Any) -> Record:
    session_id, seq, kind, at, call_id, payload, digest, previous, chained = row
    return Record(
        session_id, seq, kind, at, call_id, payload, digest.hex(), previous.hex(), chained.hex()
    )


def restore_database(backup: Path, url: str) -> BackupFacts:
    """Make a store of a backup in an empty database, all or nothing. No lease that was given out
    before holds in it. Raises `StoreError`.
    """
    if not backup.is_file():
        raise StoreError(f"there is no file {backup}")
    if not is_zipfile(backup):
        raise StoreError(f"{backup} is no backup of a store on PostgreSQL")
    size = backup.stat().st_size
    with ZipFile(backup) as archive:
        manifest = _manifest(archive)
        if manifest.schema[-1] > newest_version():
            raise StoreError(
                f"{backup} has schema {manifest.schema[-1]}, this version of Toolcrib knows "
                f"{newest_version()}; upgrade Toolcrib to restore it"
            )
        _check_digests(archive, manifest)

        async def work(connection: DatabaseConnection, database: PostgresDatabase) -> BackupFacts:
            # Of a replica that starts meanwhile and a restore, one makes the tables.
            await connection.execute("SELECT pg_advisory_lock($1)", SCHEMA_LOCK)
            await _check_empty(connection, database.shown)
            async with connection.transaction():
                await _load(connection, archive, manifest)
                facts = await counted(connection, database.shown)
            await connection.execute("ANALYZE")
            return _backup_facts(database.shown, facts, size)

        return use_database(url, work)


async def _load(connection: DatabaseConnection, archive: ZipFile, manifest: _Manifest) -> None:
    steps = {step.number: step for step in migrations()}
    for number in manifest.schema:
        await apply_step(connection, steps[number])
    for week in manifest.weeks:
        await ensure_week(connection, week)
    for name, columns in await connection.fetch(_TABLES):
        if name in _LEFT_OUT:
            continue
        kept = manifest.tables.get(name)
        if kept is None or not set(kept["columns"]) <= set(columns):
            raise StoreError(f"the backup does not say what belongs into the table {name}")
        # A migration may have filled it.
        await connection.execute(f"DELETE FROM {name}")
        with archive.open(f"tables/{name}") as member:
            await connection.copy_to_table(
                name, source=_chunks(member), columns=kept["columns"], format="binary"
            )
    await _raise_sequences(connection, manifest)
    # Where a client was connected is of no use to replicas that were not there.
    await connection.execute("DELETE FROM shared_values WHERE name ~ '^session/[^/]+/link/'")
    found = _Digested()
    await _check_chains(connection, found)
    if found.digest != manifest.heads:
        raise StoreError("the sessions do not end where the backup says; it was changed")
    for step in migrations():
        if step.number not in manifest.schema:
            await apply_step(connection, step)


async def _raise_sequences(connection: DatabaseConnection, manifest: _Manifest) -> None:
    for table, column in await connection.fetch(_IDENTITIES):
        await connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), max({column}))"
            f" FROM {table} HAVING max({column}) IS NOT NULL"
        )
    await connection.execute(
        "SELECT setval('fences', greatest($1, (SELECT max(fence) FROM sessions)) + $2)",
        manifest.fences,
        _FENCE_STEP,
    )


async def _check_empty(connection: DatabaseConnection, shown: str) -> None:
    if await schema_version(connection, shown) or await connection.fetch(_TABLES):
        raise StoreError(
            f"{shown} has tables already; nothing is overwritten, make an empty database with "
            "`createdb` and restore into that"
        )


async def _chunks(member: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := member.read(_CHUNK):
        yield chunk


def _check_digests(archive: ZipFile, manifest: _Manifest) -> None:
    """Read all of an archive, as it lies on the disk."""
    digests = {f"tables/{name}": table["sha256"] for name, table in manifest.tables.items()}
    for name, digest in {**digests, "heads": manifest.heads}.items():
        found = sha256()
        try:
            with archive.open(name) as member:
                while chunk := member.read(_CHUNK):
                    found.update(chunk)
        except (BadZipFile, KeyError, EOFError) as error:
            raise StoreError(f"the backup is damaged: {error}") from None
        if found.hexdigest() != digest:
            raise StoreError(f"the backup is damaged: {name} is not what the manifest says")


def _manifest(archive: ZipFile) -> _Manifest:
    try:
        manifest = _Manifest(**json.loads(archive.read("manifest.json")))
    except (BadZipFile, KeyError, ValueError, TypeError):
        raise StoreError(f"{archive.filename} is no backup of a store on PostgreSQL") from None
    if manifest.format != _FORMAT or not manifest.schema:
        raise StoreError(f"{archive.filename} was written by another version of Toolcrib")
    return manifest


def database_backup_facts(path: Path) -> StoreFacts:
    """What a backup holds, by its manifest."""
    with ZipFile(path) as archive:
        facts = StoreFacts(**_manifest(archive).facts)
    return replace(
        facts,
        path=str(path),
        newest_schema=newest_version(),
        is_backup=True,
        size=path.stat().st_size,
    )


def _backup_facts(path: Path | str, facts: StoreFacts, size: int) -> BackupFacts:
    return BackupFacts(path, facts.schema, facts.sessions, facts.records, facts.open_calls, size)
