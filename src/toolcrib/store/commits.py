"""A commit as rows: the chain is checked, then everything goes in with few statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import assert_never

from toolcrib.errors import StoreError
from toolcrib.session.record import Record
from toolcrib.store.chain import check_follows
from toolcrib.store.codec import encode, encode_open_call
from toolcrib.store.leases import lost
from toolcrib.store.store import (
    ApprovalFiled,
    ApprovalUsed,
    Artifact,
    ArtifactKept,
    CallClosed,
    CallOpened,
    Commit,
    Effect,
    Lease,
    OpenCall,
)
from toolcrib.store.vault import VaultChanges

_ADD_RECORD = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_PAYLOAD = "INSERT INTO payloads VALUES (?, ?, ?)"
_OPEN_CALL = (
    "INSERT INTO open_calls (session_id, call_id, fact, arguments, vault) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (session_id, call_id) DO UPDATE SET fact = excluded.fact,"
    " arguments = excluded.arguments, vault = excluded.vault"
)
_CLOSE_CALL = "DELETE FROM open_calls WHERE session_id = ? AND call_id = ?"
_FILE_APPROVAL = (
    "INSERT INTO approvals (approval_id, session_id, digest, state, request)"
    " VALUES (?, ?, ?, 'pending', ?)"
)
_USE_APPROVAL = "UPDATE approvals SET state = 'used' WHERE approval_id = ? AND session_id = ?"
_KEEP_ARTIFACT = "INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?, ?)"


def write_commit(
    connection: sqlite3.Connection, lease: Lease, commit: Commit, vault: VaultChanges
) -> None:
    """Write within the open transaction. Raises `LeaseLost`, or `LedgerBroken` on a fork."""
    _advance(connection, lease, commit.records)
    if commit.records:
        _write_records(connection, commit.records)
    if commit.effects:
        _Effects(connection, lease.session_id, vault).write(commit.effects)


def _advance(connection: sqlite3.Connection, lease: Lease, records: Sequence[Record]) -> None:
    """Move the session's head, proving in the same step that the lease is not void."""
    row = connection.execute(
        "SELECT head_seq, head_hash FROM sessions"
        " WHERE session_id = ? AND fence = ? AND holder IS NOT NULL",
        (lease.session_id, lease.fence),
    ).fetchone()
    if row is None:
        raise lost(lease)
    if records:
        check_follows(records, lease.session_id, *row)
        connection.execute(
            "UPDATE sessions SET head_seq = ?, head_hash = ? WHERE session_id = ?",
            (records[-1].seq, records[-1].hash, lease.session_id),
        )


def _write_records(connection: sqlite3.Connection, records: Sequence[Record]) -> None:
    connection.executemany(
        _ADD_RECORD,
        [
            (r.session_id, r.seq, r.kind, r.at, r.call_id, r.payload_digest, r.previous, r.hash)
            for r in records
        ],
    )
    connection.executemany(
        _ADD_PAYLOAD,
        [(r.session_id, r.seq, r.payload) for r in records if r.payload is not None],
    )


class _Effects:
    """The effects of one commit, sorted by what they come to in the end."""

    def __init__(
        self, connection: sqlite3.Connection, session_id: str, vault: VaultChanges
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._vault = vault
        self._opened: dict[str, OpenCall] = {}
        self._closed: dict[str, None] = {}
        self._filed: list[ApprovalFiled] = []
        self._used: list[str] = []
        self._artifacts: list[Artifact] = []

    def write(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self._sort(effect)
        if self._opened or self._closed:
            self._doom_vault_files()
        if self._closed:
            self._close_calls()
        if self._opened:
            self._open_calls()
        if self._filed:
            self._file_approvals()
        if self._used:
            self._connection.executemany(
                _USE_APPROVAL, [(used, self._session_id) for used in self._used]
            )
        if self._artifacts:
            self._keep_artifacts()

    def _sort(self, effect: Effect) -> None:
        match effect:
            case CallOpened(call):
                self._opened[call.call_id] = call
            case CallClosed(call_id):
                # A call that opens and closes within one commit never reaches the disk.
                self._opened.pop(call_id, None)
                self._closed[call_id] = None
            case ApprovalFiled():
                self._filed.append(effect)
            case ApprovalUsed(approval_id):
                self._used.append(approval_id)
            case ArtifactKept(artifact):
                self._artifacts.append(artifact)
            case _:
                assert_never(effect)

    def _doom_vault_files(self) -> None:
        rows = self._connection.execute(
            "SELECT call_id, vault FROM open_calls WHERE session_id = ? AND vault IS NOT NULL",
            (self._session_id,),
        )
        self._vault.doom(
            vault for call_id, vault in rows if call_id in self._opened or call_id in self._closed
        )

    def _close_calls(self) -> None:
        self._connection.executemany(
            _CLOSE_CALL, [(self._session_id, call_id) for call_id in self._closed]
        )

    def _open_calls(self) -> None:
        self._connection.executemany(
            _OPEN_CALL,
            [
                (
                    self._session_id,
                    call.call_id,
                    encode_open_call(call),
                    None if call.has_secrets else call.arguments,
                    self._vault.put(call.arguments) if call.has_secrets else None,
                )
                for call in self._opened.values()
            ],
        )

    def _file_approvals(self) -> None:
        try:
            self._connection.executemany(
                _FILE_APPROVAL,
                [
                    (r.approval_id, self._session_id, r.digest, encode(r))
                    for r in (filed.request for filed in self._filed)
                ],
            )
        except sqlite3.IntegrityError as error:
            raise StoreError("an approval of this commit is filed already") from error

    def _keep_artifacts(self) -> None:
        self._connection.executemany(
            _KEEP_ARTIFACT,
            [(self._session_id, a.artifact_id, a.call_id, a.text) for a in self._artifacts],
        )
