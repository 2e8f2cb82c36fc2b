"""The check of a whole session in a store: its chain, and what lies beside it.

Artifacts and settings are not in the ledger. Records hold their digests, so that a change or a
loss of them is found like one of a record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from toolcrib.errors import LedgerBroken, UsageError
from toolcrib.ledger.events import SessionOpened, SessionRestored, SettingsSaved, ToolInvoked
from toolcrib.ledger.record import ChainCheck, Head, Record
from toolcrib.store.codec import encode_settings

if TYPE_CHECKING:
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
    info = store.session(session_id)
    chain = ChainCheck([*heads, *([info.head] if info.head else [])])
    settings = _SettingsCheck()
    artifacts: list[_KeptArtifact] = []
    count = 0
    for record in store.records(session_id):
        # What came after the look at the session is checked the next time.
        if count == (info.head.seq if info.head else 0):
            break
        chain.take(record)
        settings.take(record)
        artifacts.extend(_artifact_of(record))
        count += 1
    head = chain.end()
    kept = [each for each in artifacts if each.seq > chain.missing.deleted_up_to]
    for artifact in kept:
        _check_artifact(artifact, store.artifact(session_id, artifact.artifact_id))
    settings.end(info)
    return VerifiedSession(head, count, chain.missing.deleted, len(kept))


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
    if (
        record.kind != ToolInvoked.kind
        or record.payload is None
        or b'"artifact_id"' not in record.payload
    ):
        return
    event = record.event
    if isinstance(event, ToolInvoked) and event.artifact_id is not None:
        yield _KeptArtifact(event.artifact_id, event.artifact_digest, record.seq)


def _check_artifact(artifact: _KeptArtifact, text: str | None) -> None:
    name, seq = artifact.artifact_id, artifact.seq
    if text is None:
        raise LedgerBroken(f"{name!r}, which record {seq} names, is missing", seq=seq)
    if artifact.digest is not None and artifact_digest(text) != artifact.digest:
        raise LedgerBroken(f"{name!r}, which record {seq} names, was changed", seq=seq)


def artifact_digest(text: str) -> str:
    """The digest by which a record names an artifact."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
