"""Commits, approvals and grants as rows; each function runs in its caller's transaction.

Any number of commits go in with a handful of statements. Payloads and sessions are deleted here
too, and what a killed process left behind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any, assert_never

from toolcrib.approval.authority import completes
from toolcrib.approval.decision import Ballot, Decided, expired
from toolcrib.approval.grant import Grant
from toolcrib.errors import SessionNotFound, StoreError
from toolcrib.ledger.events import CallStarted
from toolcrib.ledger.record import Record, check_follows
from toolcrib.store.codec import (
    decode_ballot,
    decode_decided,
    decode_grant,
    decode_request,
    encode,
    encode_settings,
    packed_artifact,
    put_back_edit,
    put_back_vote,
    take_out_edit,
    take_out_vote,
)
from toolcrib.store.leases import check_free, check_lease, lost
from toolcrib.store.sqlite_calls import CallChanges, PriceSource, forget_calls
from toolcrib.store.sqlite_summaries import count_again
from toolcrib.store.store import (
    ApprovalFiled,
    ApprovalUsed,
    ArtifactKept,
    CallClosed,
    CallOpened,
    Commit,
    Effect,
    FiledApproval,
    KeyClaim,
    Lease,
    OpenCall,
    SettingsKept,
    check_end,
)
from toolcrib.store.vault import Vault, VaultChanges

Row = tuple[Any, ...]

_MOVE_HEAD = (
    "UPDATE sessions SET head_seq = ?, head_hash = ? WHERE session_id = ? AND fence = ?"
    " AND holder IS NOT NULL AND head_seq = ? AND head_hash = ?"
)
_KEEP_HEAD = (
    "UPDATE sessions SET fence = fence WHERE session_id = ? AND fence = ? AND holder IS NOT NULL"
)
_READ_HEAD = (
    "SELECT head_seq, head_hash FROM sessions"
    " WHERE session_id = ? AND fence = ? AND holder IS NOT NULL"
)
_LAST_ID = "SELECT ifnull(max(id), 0) FROM records"
_ADD_RECORD = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_PAYLOAD = "INSERT INTO payloads VALUES (?, ?)"
_OPEN_CALL = (
    "INSERT INTO open_calls (session_id, call_id, fact, vault) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (session_id, call_id) DO UPDATE SET fact = excluded.fact,"
    " vault = excluded.vault"
)
_CALLS_IN_VAULT = "SELECT session_id, call_id, vault FROM open_calls WHERE vault IS NOT NULL"
_CLOSE_CALL = "DELETE FROM open_calls WHERE session_id = ? AND call_id = ?"
_FILE_APPROVAL = (
    "INSERT INTO approvals (approval_id, session_id, digest, state, request, deadline)"
    " VALUES (?, ?, ?, 'pending', ?, ?)"
)
_EDITS_IN_VAULT = "SELECT approval_id, session_id, vault FROM approvals WHERE vault IS NOT NULL"
_USE_APPROVAL = (
    "UPDATE approvals SET state = 'used', vault = NULL WHERE approval_id = ? AND session_id = ?"
)
_KEEP_SETTINGS = "UPDATE sessions SET settings = ? WHERE session_id = ?"
_KEEP_ARTIFACT = "INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?, ?)"


def write_commits(
    connection: sqlite3.Connection,
    commits: Sequence[tuple[Lease, Commit]],
    vault: VaultChanges,
    prices: PriceSource,
    *,
    is_synced: bool = False,
) -> None:
    """Write all or, by raising, nothing that the caller may keep. Files beside the database are on
    the disk by then if `is_synced`.

    Raises `LeaseLost` when a lease is void and `LedgerBroken` when a chain would fork.
    """
    group = _Group()
    for lease, commit in commits:
        group.add(lease, commit)
    if not group.move_heads(connection):
        _blame(connection, commits)
    group.write_records(connection, prices)
    group.write_calls(connection, vault, is_synced=is_synced)
    group.write_approvals(connection, vault)
    _executemany(connection, _KEEP_ARTIFACT, group.artifacts)
    _executemany(connection, _KEEP_SETTINGS, group.settings)


class _Group:
    """The rows of several commits, sorted by table."""

    def __init__(self) -> None:
        self.moved_heads: list[Row] = []
        self.kept_heads: list[Row] = []
        self.records: list[Record] = []
        self.opened: dict[tuple[str, str], OpenCall] = {}
        self.closed: dict[tuple[str, str], None] = {}
        self.filed: list[Row] = []
        self.used: list[Row] = []
        self.artifacts: list[Row] = []
        self.settings: list[Row] = []

    def add(self, lease: Lease, commit: Commit) -> None:
        writer = (lease.session_id, lease.fence)
        if commit.records:
            first, last = commit.records[0], commit.records[-1]
            check_follows(commit.records, lease.session_id, first.seq - 1, first.previous)
            self.moved_heads.append((last.seq, last.hash, *writer, first.seq - 1, first.previous))
            self.records.extend(commit.records)
        else:
            self.kept_heads.append(writer)
        for effect in commit.effects:
            self._sort(lease.session_id, effect)

    def _sort(self, session_id: str, effect: Effect) -> None:
        match effect:
            case CallOpened(call=call):
                self.opened[session_id, call.call_id] = call
            case CallClosed(call_id):
                # A call that opens and closes within one group never reaches the disk.
                self.opened.pop((session_id, call_id), None)
                self.closed[session_id, call_id] = None
            case ApprovalFiled(request):
                key = (request.approval_id, session_id, request.digest)
                self.filed.append((*key, encode(request), request.deadline))
            case ApprovalUsed(approval_id):
                self.used.append((approval_id, session_id))
            case ArtifactKept(artifact):
                self.artifacts.append(
                    (
                        session_id,
                        artifact.artifact_id,
                        artifact.call_id,
                        packed_artifact(artifact.text),
                    )
                )
            case SettingsKept(settings):
                self.settings.append((encode_settings(settings), session_id))
            case _:
                assert_never(effect)

    def move_heads(self, connection: sqlite3.Connection) -> bool:
        """Advance every session, proving in the same step that each lease and end is right."""
        changed = _executemany(connection, _MOVE_HEAD, self.moved_heads)
        changed += _executemany(connection, _KEEP_HEAD, self.kept_heads)
        return changed == len(self.moved_heads) + len(self.kept_heads)

    def write_records(self, connection: sqlite3.Connection, prices: PriceSource) -> None:
        if not self.records:
            return
        # Numbered across sessions, so that a group fills a few pages and not one per session.
        (last,) = connection.execute(_LAST_ID).fetchone()
        numbered = list(enumerate(self.records, start=last + 1))
        _executemany(connection, _ADD_RECORD, [_row(i, r) for i, r in numbered])
        payloads = [(i, r.payload) for i, r in numbered if r.payload is not None]
        _executemany(connection, _ADD_PAYLOAD, payloads)
        self._write_index(connection, numbered, prices)

    def _write_index(
        self,
        connection: sqlite3.Connection,
        numbered: Sequence[tuple[int, Record]],
        prices: PriceSource,
    ) -> None:
        changes = CallChanges(connection, prices)
        for row_id, record in numbered:
            if record.kind != CallStarted.kind or self._may_have_row(record):
                changes.take(row_id, record)
        changes.write()

    def _may_have_row(self, start: Record) -> bool:
        """Whether a call that starts may be in the index: it was asked about, or tried before."""
        call = self.opened.get((start.session_id, start.call_id or ""))
        return call is None or call.approval_id is not None or call.attempt > 1

    def write_calls(
        self, connection: sqlite3.Connection, vault: VaultChanges, *, is_synced: bool
    ) -> None:
        if not self.opened and not self.closed:
            return
        in_vault = connection.execute(_CALLS_IN_VAULT).fetchall()
        vault.doom(name for *key, name in in_vault if self._is_touched(*key))
        _executemany(connection, _CLOSE_CALL, list(self.closed))
        opened = [
            (*key, None, vault.put(encode(call), is_synced=is_synced))
            if call.has_secrets
            else (*key, encode(call), None)
            for key, call in self.opened.items()
        ]
        _executemany(connection, _OPEN_CALL, opened)

    def _is_touched(self, session_id: str, call_id: str) -> bool:
        return (session_id, call_id) in self.opened or (session_id, call_id) in self.closed

    def write_approvals(self, connection: sqlite3.Connection, vault: VaultChanges) -> None:
        try:
            _executemany(connection, _FILE_APPROVAL, self.filed)
        except sqlite3.IntegrityError as error:
            raise StoreError("an approval of this commit is filed already") from error
        if self.used:
            in_vault = connection.execute(_EDITS_IN_VAULT).fetchall()
            vault.doom(name for *key, name in in_vault if tuple(key) in self.used)
            _executemany(connection, _USE_APPROVAL, self.used)


def _row(i: int, r: Record) -> Row:
    chained = (r.kind, r.at, r.call_id, r.payload_digest, r.previous, r.hash)
    return (i, r.session_id, r.seq, *chained)


def _executemany(connection: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> int:
    return connection.executemany(statement, rows).rowcount if rows else 0


def _blame(connection: sqlite3.Connection, commits: Sequence[tuple[Lease, Commit]]) -> None:
    """Find the commit that did not fit, and say why. The heads of the others have moved."""
    for lease, commit in commits:
        row = connection.execute(_READ_HEAD, (lease.session_id, lease.fence)).fetchone()
        if row is None:
            raise lost(lease)
        if commit.records and row != (commit.records[-1].seq, commit.records[-1].hash):
            check_follows(commit.records, lease.session_id, *row)
    raise StoreError("a commit was refused, and neither its lease nor its records say why")


_OF_SESSION = (
    "records",
    "open_calls",
    "approvals",
    "grants",
    "artifacts",
    "keys",
    "sessions",
    "summaries",
)
_DELETE_PAYLOADS = (
    "DELETE FROM payloads WHERE id IN"
    " (SELECT id FROM records WHERE session_id = ? AND seq <= ifnull(?, seq))"
)


def delete_payloads(connection: sqlite3.Connection, lease: Lease, up_to: int) -> None:
    """Delete what can be deleted while the chain still verifies."""
    check_lease(connection, lease)
    of_session = (lease.session_id,)
    connection.execute(_DELETE_PAYLOADS, (lease.session_id, up_to))
    connection.execute("DELETE FROM artifacts WHERE session_id = ?", of_session)
    connection.execute("DELETE FROM approvals WHERE session_id = ? AND state = 'used'", of_session)
    forget_calls(connection, lease.session_id, up_to)
    # A title is words of a payload.
    count_again(connection, lease.session_id)


def delete_session(
    connection: sqlite3.Connection,
    session_id: str,
    now: float,
    vault: VaultChanges,
    last_seq: int | None,
) -> None:
    """Delete every row of a session, its own grants too. Raises `LeaseHeld` while it is written."""
    row = connection.execute(
        "SELECT fence, holder, expires_at, head_seq FROM sessions WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    if row is None:
        raise SessionNotFound(f"there is no session {session_id!r}")
    fence, holder, expires_at, seq = row
    check_free(session_id, holder, expires_at, now)
    check_end(session_id, seq, last_seq)
    vault.doom(_vault_names(connection, session_id))
    connection.execute(_DELETE_PAYLOADS, (session_id, None))
    forget_calls(connection, session_id, None)
    for table in _OF_SESSION:
        connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    # A session made again under this id must not honour leases of the deleted one.
    connection.execute("UPDATE fence_floor SET fence = max(fence, ?)", (fence,))


def empty_log(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the database and cut it to nothing.

    SQLite does as much of it as readers in other processes allow; the rest follows later.
    """
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def sweep(connection: sqlite3.Connection, vault: Vault) -> None:
    """Erase vault files that neither an open call nor a decision names.

    Within a write transaction, because a file is written in the transaction that names it.
    """
    vault.erase(vault.names() - _vault_names(connection, None))


def _vault_names(connection: sqlite3.Connection, session_id: str | None) -> set[str]:
    names: set[str] = set()
    for table in ("open_calls", "approvals"):
        rows = connection.execute(
            f"SELECT vault FROM {table} WHERE vault IS NOT NULL"
            " AND session_id = ifnull(?, session_id)",
            (session_id,),
        )
        names.update(name for (name,) in rows)
    return names


_FILED = "SELECT filed, request, state, decided, vault, ballot FROM approvals"
APPROVALS = (
    f"{_FILED} WHERE session_id = ifnull(?, session_id)"
    " AND (? IS NULL OR session_id IN (SELECT session_id FROM sessions WHERE owner = ?))"
    " AND state = ifnull(?, state) AND filed > ? ORDER BY filed LIMIT ?"
)
APPROVAL = f"{_FILED} WHERE approval_id = ?"
_PENDING = (
    "SELECT vault, ballot FROM approvals WHERE approval_id = ? AND digest = ? AND state = 'pending'"
)
_DECIDE = (
    "UPDATE approvals SET state = 'decided', decided = ?, vault = ?, ballot = NULL"
    " WHERE approval_id = ?"
)
_VOTE = "UPDATE approvals SET ballot = ?, vault = ? WHERE approval_id = ?"
_OVERDUE_GRANTS = "SELECT grant_id, fact FROM grants WHERE expires_at <= ?"
_OVERDUE_REQUESTS = "SELECT request FROM approvals WHERE state = 'pending' AND deadline <= ?"
OVERDUE = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM grants WHERE expires_at <= ?) OR EXISTS"
    " (SELECT 1 FROM approvals WHERE state = 'pending' AND deadline <= ?)"
)
GRANTS = (
    "SELECT made, fact FROM grants WHERE tool_id = ifnull(?, tool_id) AND made > ?"
    " ORDER BY made LIMIT ?"
)
GRANT = "SELECT fact FROM grants WHERE grant_id = ?"


def filed_approval(row: tuple[Any, ...], vault: Vault) -> FiledApproval:
    """One row of `APPROVALS` or `APPROVAL`. Edited arguments are empty once they were used."""
    _, request, state, data, name, votes = row
    decided = decode_decided(data) if data else None
    if decided is not None and name is not None:
        try:
            decided = put_back_edit(decided, vault.read(name))
        except FileNotFoundError:
            # Used, and its file erased, since the row was read; or lost with its file. Either way
            # nobody may act on it: without its edit it is not what was decided.
            state = "used"
    ballot = _ballot(votes, name, vault)
    return FiledApproval(decode_request(request), state, decided, ballot)


def _ballot(votes: bytes | None, name: str | None, vault: Vault | VaultChanges) -> Ballot | None:
    """The votes of a pending request. Those for an edit that was lost with its file do not count:
    nobody could say any more what they are for.
    """
    if votes is None:
        return None
    ballot = decode_ballot(votes)
    if ballot.approval.arguments is None:
        return ballot
    try:
        return None if name is None else put_back_vote(ballot, vault.read(name))
    except FileNotFoundError:
        return None


def decide(connection: sqlite3.Connection, decided: Decided, vault: VaultChanges) -> bool:
    """Compare-and-swap from pending to decided.

    Edited arguments may hold secrets that nobody has marked yet, so they all go to the vault.
    """
    row = connection.execute(_PENDING, (decided.approval_id, decided.digest)).fetchone()
    if row is None or not completes(_ballot(row[1], row[0], vault), decided):
        return False
    emptied, edited = take_out_edit(decided)
    name = None if edited is None else vault.put(edited)
    vault.doom(old for old in row[:1] if old is not None)
    connection.execute(_DECIDE, (encode(emptied), name, decided.approval_id))
    return True


def vote(
    connection: sqlite3.Connection,
    key: tuple[str, str],
    ballot: Ballot,
    after: Ballot | None,
    vault: VaultChanges,
) -> bool:
    """Compare-and-swap of the votes for the pending request of this id and digest."""
    row = connection.execute(_PENDING, key).fetchone()
    if row is None or _ballot(row[1], row[0], vault) != after:
        return False
    emptied, edited = take_out_vote(ballot)
    name = None if edited is None else vault.put(edited)
    vault.doom(old for old in row[:1] if old is not None)
    connection.execute(_VOTE, (encode(emptied), name, key[0]))
    return True


def expire(connection: sqlite3.Connection, now: float, vault: VaultChanges) -> None:
    """Record every grant and every pending request that is over at `now` as expired."""
    for grant_id, fact in connection.execute(_OVERDUE_GRANTS, (now,)).fetchall():
        _save_grant(connection, grant_id, decode_grant(fact).expire(now))
    for (request,) in connection.execute(_OVERDUE_REQUESTS, (now,)).fetchall():
        decide(connection, expired(decode_request(request), now), vault)


_KEY = "principal = ? AND operation = ? AND key = ?"


def claim_key(connection: sqlite3.Connection, claim: KeyClaim) -> KeyClaim | None:
    """Keep a claim unless its key is taken; then return the one that has it."""
    row = connection.execute(f"SELECT * FROM keys WHERE {_KEY}", _key_of(claim)).fetchone()
    if row is not None:
        return KeyClaim(*row)
    # All but the holder: the processes that share a file tell by its leases who is gone.
    connection.execute(f"INSERT INTO keys VALUES ({', '.join('?' * 8)})", astuple(claim)[:8])
    return None


def settle_key(connection: sqlite3.Connection, claim: KeyClaim) -> None:
    """Keep the outcome of a claim."""
    outcome = (claim.outcome, *_key_of(claim))
    connection.execute(f"UPDATE keys SET outcome = ? WHERE {_KEY}", outcome)


def release_key(connection: sqlite3.Connection, claim: KeyClaim) -> None:
    """Forget a claim."""
    connection.execute(f"DELETE FROM keys WHERE {_KEY}", _key_of(claim))


def forget_keys(connection: sqlite3.Connection, lease: Lease) -> None:
    """Forget every claim in a session."""
    check_lease(connection, lease)
    connection.execute("DELETE FROM keys WHERE session_id = ?", (lease.session_id,))


def _key_of(claim: KeyClaim) -> tuple[str, str, str]:
    return claim.principal, claim.operation, claim.key


def add_grant(connection: sqlite3.Connection, grant: Grant) -> None:
    """Keep a new grant."""
    try:
        connection.execute(
            "INSERT INTO grants (grant_id, tool_id, session_id, fact, expires_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (grant.grant_id, grant.tool_id, grant.session_id, encode(grant), _watched(grant)),
        )
    except sqlite3.IntegrityError as error:
        raise StoreError(f"there is already a grant {grant.grant_id!r}") from error


def change_grant(
    connection: sqlite3.Connection, grant_id: str, now: float, change: Callable[[Grant], Grant]
) -> bool:
    """Replace a grant that is live by what `change` makes of it."""
    row = connection.execute(GRANT, (grant_id,)).fetchone()
    grant = decode_grant(row[0]) if row else None
    if grant is None or not grant.is_live(now):
        return False
    _save_grant(connection, grant_id, change(grant))
    return True


def _save_grant(connection: sqlite3.Connection, grant_id: str, grant: Grant) -> None:
    connection.execute(
        "UPDATE grants SET fact = ?, expires_at = ? WHERE grant_id = ?",
        (encode(grant), _watched(grant), grant_id),
    )


def _watched(grant: Grant) -> float | None:
    """When the grant has to be recorded as expired; None when it never has to."""
    has_ended = grant.revoked_at is not None or grant.expired_at is not None
    return None if has_ended else grant.expires_at
