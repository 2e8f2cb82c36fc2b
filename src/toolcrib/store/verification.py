"""The check of a whole session in a store: its chain, and what lies beside it.

Artifacts and settings are not in the ledger. Records hold their digests, so that a change or a
loss of them is found like one of a record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from toolcrib.errors import LedgerBroken, UsageError
from toolcrib.ledger.events import (
    SessionOpened,
    SessionRestored,
    SettingsSaved,
)
from toolcrib.ledger.record import GENESIS, ChainCheck, Head, Record, end_of
from toolcrib.store.codec import encode_settings
from toolcrib.store.store import every

if TYPE_CHECKING:
    from toolcrib.store.call_index import CallFold
    from toolcrib.store.call_query import CallRow
    from toolcrib.store.store import SessionInfo, Store


@dataclass(frozen=True, slots=True)
class VerifiedSession:
    """A session that is whole, and how much of it there is."""

    head: Head | None
    records: int
    deleted_payloads: int
    """Payloads that are gone, and that records say were deleted."""
    artifacts: int


@dataclass(frozen=True, slots=True)
class _KeptArtifact:
    artifact_id: str
    digest: str | None
    seq: int


def verify_session(store: Store, session_id: str, heads: Iterable[Head] = ()) -> VerifiedSession:
    """Check everything that the store has of a session, against heads kept elsewhere too.

    Raises `LedgerBroken` at the first fault, and `SessionNotFound`.
    """
    from toolcrib.store.call_index import INDEXED_KINDS, CallFold

    info = store.session(session_id)
    chain = ChainCheck([*heads, *([info.head] if info.head else [])])
    settings = _SettingsCheck()
    artifacts: list[_KeptArtifact] = []
    fold = CallFold(info.owner)
    count = 0
    for record in store.records(session_id):
        # What came after the look at the session is checked the next time.
        if count == (info.head.seq if info.head else 0):
            break
        chain.take(record)
        settings.take(record)
        artifacts.extend(_artifact_of(record))
        if record.kind in INDEXED_KINDS:
            fold.take(record)
        count += 1
    head = chain.end()
    kept = [each for each in artifacts if each.seq > chain.missing.deleted_up_to]
    for artifact in kept:
        _check_artifact(artifact, store.artifact(session_id, artifact.artifact_id))
    settings.end(info)
    _check_index(store, session_id, fold, chain.missing.deleted_up_to)
    return VerifiedSession(head, count, chain.missing.deleted, len(kept))


def check_last_record(store: Store, info: SessionInfo) -> None:
    """Raise `LedgerBroken` unless the last record is the one that the session's row names: else
    something was cut off.
    """
    newest = next(iter(store.records(info.session_id, limit=1, newest_first=True)), None)
    seq, digest = end_of(info.head)
    if (newest.seq if newest else 0, newest.hash if newest else GENESIS) != (seq, digest):
        raise LedgerBroken(
            f"the ledger of session {info.session_id!r} should end at record {seq} but does not; "
            "run `toolcrib audit verify`",
            seq=seq,
        )


def _check_index(store: Store, session_id: str, fold: CallFold, deleted_up_to: int) -> None:
    """The index of calls must say what the ledger says; the ledger is the truth. Calls that only
    run, what came since, and calls whose payloads were deleted in part are not compared.
    """
    from toolcrib.store.call_index import is_bare
    from toolcrib.store.call_query import CallQuery

    query = CallQuery(session_id=session_id, kind=None, oldest_first=True)
    indexed = every(lambda cursor: store.calls(query, cursor=cursor, limit=1_000))
    listed = {row.seq: row for row in indexed if row.seq}
    uncertain = {row.call_id for row in listed.values() if row.seq <= deleted_up_to}
    expected = {row.seq: row for row in fold.rows if not is_bare(row)}
    newest = fold.last_seq
    for seq in sorted(listed.keys() | expected.keys()):
        row, truth = listed.get(seq), expected.get(seq)
        some = row or truth
        assert some is not None
        is_newer = row is not None and row.last_seq > newest
        if is_newer or seq <= deleted_up_to or some.call_id in uncertain - {None}:
            continue
        if row is None or truth is None or _without_cost(row) != _without_cost(truth):
            raise LedgerBroken(
                f"the index of calls does not agree with record {seq}: it was changed in the "
                "store; make it anew with `toolcrib audit reindex`",
                seq=seq,
            )


def _without_cost(row: CallRow) -> CallRow:
    """What of a row the ledger alone determines: prices change."""
    return replace(row, cost=None, prices=None)


def settings_digest(settings: dict[str, Any], owner: str | None) -> str:
    """The digest of a session's settings and its owner. The number of the last turn is left out: it
    changes with every turn, and the ledger has it. An empty list is the same as none.
    """
    covered = {name: value for name, value in settings.items() if name != "turn" and value}
    # Through JSON, so that it is the same before and after they were stored.
    try:
        stored = from_json(encode_settings(covered))
    except ValueError as error:
        raise UsageError(f"the settings of a session must be JSON: {error}") from None
    return sha256(json.dumps([owner, stored], sort_keys=True).encode()).hexdigest()


_SETTINGS_KINDS = frozenset({SessionOpened.kind, SessionRestored.kind, SettingsSaved.kind})


class _SettingsCheck:
    """Follows the settings through the ledger: each writer must find what the last one saved."""

    def __init__(self) -> None:
        self._digest: str | None = None
        self._seq = 0

    def take(self, record: Record) -> None:
        if record.payload is None or record.kind not in _SETTINGS_KINDS:
            return
        match record.event:
            case SessionOpened(settings_digest=str() as digest):
                self._check(digest, record.seq)
            case SettingsSaved(digest=digest) | SessionRestored(settings_digest=digest):
                self._digest = digest
            case _:
                pass
        self._seq = record.seq

    def end(self, info: SessionInfo) -> None:
        self._check(settings_digest(info.settings, info.owner), self._seq)

    def _check(self, digest: str, seq: int) -> None:
        if self._digest is not None and digest != self._digest:
            raise LedgerBroken(
                "the settings of the session or its owner are not those that its ledger says were "
                "saved: they were changed in the store",
                seq=seq,
            )
        self._digest = digest


def _artifact_of(record: Record) -> Iterable[_KeptArtifact]:
    # Few results are long; to decode every record would double the time that the check takes.
    if record.payload is None or b'"artifact_id"' not in record.payload:
        return
    # Imported by who verifies: executors in memory never do.
    from toolcrib.ledger.named_artifacts import NAMING_KINDS, named_artifacts

    if record.kind not in NAMING_KINDS:
        return
    for artifact_id, digest in named_artifacts(record.event):
        yield _KeptArtifact(artifact_id, digest, record.seq)


def _check_artifact(artifact: _KeptArtifact, text: str | None) -> None:
    name, seq = artifact.artifact_id, artifact.seq
    if text is None:
        raise LedgerBroken(f"{name!r}, which record {seq} names, is missing", seq=seq)
    if artifact.digest is not None and artifact_digest(text) != artifact.digest:
        raise LedgerBroken(f"{name!r}, which record {seq} names, was changed", seq=seq)


def artifact_digest(text: str) -> str:
    """The digest by which a record names an artifact."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
