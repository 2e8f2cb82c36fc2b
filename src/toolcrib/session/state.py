"""A session in a form that can be kept anywhere and go on in another process.

A state holds the real arguments of calls that wait, because they must still run: treat it like the
secrets it may contain. Sessions in a store need no state; open them from the store.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from pydantic_core import to_json

from toolcrib.approval.decision import Approve, Ballot
from toolcrib.approval.grant import Grant
from toolcrib.errors import InvalidState, LedgerBroken, SessionNotFound, UsageError
from toolcrib.ledger.events import SessionRestored
from toolcrib.ledger.named_artifacts import NAMING_KINDS, named_artifacts
from toolcrib.ledger.record import Record, deletion_end, events, verify
from toolcrib.session.session_id import check_session_id
from toolcrib.store.store import (
    ApprovalFiled,
    ApprovalUsed,
    Artifact,
    ArtifactKept,
    CallOpened,
    Commit,
    FiledApproval,
    OpenCall,
    every,
)
from toolcrib.store.verification import artifact_digest, settings_digest

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from toolcrib.session.session import Session
    from toolcrib.store.ledger_writer import Ledger
    from toolcrib.store.store import Lease, Store

STATE_VERSION = 1


@dataclass(frozen=True, slots=True)
class ResumableState:
    """Everything a session needs to go on. `to_json` and `from_json` carry it anywhere."""

    session_id: str
    need_user_approve_tools: tuple[str, ...] = ()
    turn: int = 0
    calls_made: int = 0
    records: tuple[Record, ...] = ()
    open_calls: tuple[OpenCall, ...] = ()
    approvals: tuple[FiledApproval, ...] = ()
    grants: tuple[Grant, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    version: int = STATE_VERSION
    signature: str = field(default="", kw_only=True)

    def to_json(self) -> bytes:
        """The state as JSON."""
        return to_json(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> ResumableState:
        """Read a state. Raises `InvalidState` when it is malformed or of another version."""
        from pydantic import ValidationError

        try:
            state = _adapter().validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = "/".join(str(part) for part in first["loc"])
            raise InvalidState(f"not a resumable state: /{where}: {first['msg']}") from None
        if state.version != STATE_VERSION:
            raise InvalidState(
                f"the state has version {state.version}; this package reads {STATE_VERSION}"
            )
        return state

    def signed(self, key: bytes) -> ResumableState:
        """The state with a signature, so that whoever keeps it cannot change it."""
        return replace(self, signature=self._sign(key))

    def check_signature(self, key: bytes) -> None:
        """Raise `InvalidState` unless the state was signed with `key` and not changed since."""
        if not hmac.compare_digest(self.signature.encode(), self._sign(key).encode()):
            raise InvalidState("the state was changed, or signed with another key")

    def _sign(self, key: bytes) -> str:
        body = replace(self, signature="").to_json()
        return hmac.new(key, body, hashlib.sha256).hexdigest()


@cache
def _adapter() -> TypeAdapter[ResumableState]:
    from pydantic import TypeAdapter

    return TypeAdapter(ResumableState)


def export_state(session: Session, *, key: bytes | None = None) -> ResumableState:
    """The session as a state. Calls that are running right now are not part of it: finish or
    cancel them first.
    """
    executors = session.executor_state
    if executors is not None and executors.running_ids:
        running = ", ".join(executors.running_ids)
        raise UsageError(f"calls are running: {running}; export when they are done")
    store = session.store
    state = ResumableState(
        session_id=session.session_id,
        need_user_approve_tools=tuple(session.need_user_approve_tools),
        turn=session.last_turn,
        calls_made=session.calls_made,
        records=tuple(session.records()),
        open_calls=tuple(session.open_calls()),
        approvals=tuple(
            every(lambda cursor: store.approvals(session_id=session.session_id, cursor=cursor))
        ),
        grants=tuple(
            grant
            for grant in every(lambda cursor: store.grants(cursor=cursor))
            if grant.session_id == session.session_id
        ),
        artifacts=tuple(_artifacts(session)),
    )
    return state if key is None else state.signed(key)


def _artifacts(session: Session) -> Iterator[Artifact]:
    """What the events name and the ledger does not hold, where it has not been deleted."""
    kept: set[str] = set()
    for event in session.events(kinds=NAMING_KINDS):
        for artifact_id, _ in named_artifacts(event):
            text = session.store.artifact(session.session_id, artifact_id)
            if text is not None and artifact_id not in kept:
                kept.add(artifact_id)
                yield Artifact(artifact_id, getattr(event, "call_id", ""), text)


def restore_state(session: Session, state: ResumableState, *, key: bytes | None = None) -> None:
    """Let a fresh session in memory go on where `state` ended.

    The host's own list of tools that need approval is kept and the state's is added to it, so a
    state can make the session stricter and never laxer.
    """
    if key is not None:
        state.check_signature(key)
    if session.store.is_durable:
        raise InvalidState(
            "a session in a durable store is not restored from a state; "
            "open it: Session.open(store, session_id)"
        )
    if session.last_turn or any(record.call_id is not None for record in session.records()):
        raise InvalidState("only a fresh session can be restored; this one has made calls")
    _check(state)
    session.adopt(state)
    head, stored = session.head(), session.store.session(session.session_id)
    session.note(
        SessionRestored(
            session_id=session.session_id,
            at=session.clock(),
            head=head.hash if head else "",
            settings_digest=settings_digest(stored.settings, stored.owner),
        )
    )


def replace_session(
    store: Store, lease: Lease, state: ResumableState, *, owner: str | None
) -> Ledger:
    """Put the session of `state` into the store, in place of the fresh one that `lease` writes."""
    store.release(lease)
    store.delete_session(lease.session_id)
    with suppress(SessionNotFound):
        store.delete_session(state.session_id)
    lease = store.acquire(state.session_id, owner=owner)
    requests = [ApprovalFiled(filed.request) for filed in state.approvals]
    calls = [CallOpened(call) for call in state.open_calls]
    artifacts = [ArtifactKept(artifact) for artifact in state.artifacts]
    store.commit(lease, Commit(state.records, [*requests, *calls, *artifacts]))
    for filed in state.approvals:
        _restore_decision(store, filed)
    used = [filed for filed in state.approvals if filed.state == "used"]
    store.commit(lease, Commit((), [ApprovalUsed(filed.request.approval_id) for filed in used]))
    for grant in state.grants:
        store.add_grant(grant)
    return store.open_ledger(lease)


def _restore_decision(store: Store, filed: FiledApproval) -> None:
    decided, ballot = filed.decided, filed.ballot
    if decided is not None and isinstance(decided.decision, Approve) and len(decided.votes) > 1:
        # The last vote completes the others.
        ballot = Ballot(decided.decision, decided.votes[:-1])
    if ballot is not None:
        store.vote(filed.request.approval_id, filed.request.digest, ballot, after=None)
    if decided is not None:
        store.decide(decided)


def _check(state: ResumableState) -> None:
    try:
        check_session_id(state.session_id)
    except UsageError as error:
        raise InvalidState(f"the state has no session id: {error}") from error
    try:
        head = verify(state.records)
    except LedgerBroken as error:
        raise InvalidState(f"the ledger in the state is broken: {error}") from error
    if head is not None and head.session_id != state.session_id:
        raise InvalidState("the ledger in the state is of another session")
    _check_artifacts(state)
    for filed in state.approvals:
        decided, request = filed.decided, filed.request
        if decided is not None and (decided.approval_id, decided.digest) != (
            request.approval_id,
            request.digest,
        ):
            raise InvalidState(f"the decision on {request.approval_id} is about another request")
    requests = {filed.request.approval_id: filed.request for filed in state.approvals}
    for call in state.open_calls:
        request = requests.get(call.approval_id or "")
        # One that was edited is not what was asked about, and it runs again only if somebody says.
        is_edited = call.was_edited and call.state == "in_doubt"
        if request is not None and request.digest != call.digest and not is_edited:
            raise InvalidState(f"call {call.call_id} is not the one its approval is about")


def _check_artifacts(state: ResumableState) -> None:
    digests = {artifact.artifact_id: artifact_digest(artifact.text) for artifact in state.artifacts}
    for event in events(state.records, lambda: deletion_end(state.records)):
        for artifact_id, digest in named_artifacts(event):
            if digest is not None and digests.get(artifact_id) != digest:
                raise InvalidState(f"{artifact_id} in the state is not what its record names")
