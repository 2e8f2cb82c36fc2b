"""Which replica answers an operation: the one that has its session open, else this one.

Each operation is either bound to a session, or it reads and writes the store and any replica
answers it. An operation is forwarded once; a replica that does not have the session any more says
so, and the sender looks again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, assert_never

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from toolcrib.errors import (
    AnswerLost,
    Refused,
    ReplicaUnreachable,
    SessionElsewhere,
    SessionNotHere,
    UsageError,
)
from toolcrib.runtime.principal import Principal
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from toolcrib.runtime.operations import Operation
    from toolcrib.runtime.service import Service
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.store.shared_store import Hint, Replica, SharedStore

Binding = Literal["session", "request", "grant", "questions", "turn", "store"]
"""What an operation is bound to: the session of its parameters, that of an approval request or of a
grant, the replicas that have questions open, the turns of a session, or the store alone.
"""

BINDINGS: Final[Mapping[str, Binding]] = {
    "runtime.capabilities": "store",
    "session.create": "store",
    "session.get": "session",
    "session.list": "store",
    "session.resume": "session",
    "session.fork": "session",
    "session.close": "session",
    "session.delete": "session",
    "tools.list": "session",
    "tools.info": "session",
    "tools.call": "session",
    "tools.cancel": "session",
    "prompt.send": "turn",
    "prompt.resume": "turn",
    "prompt.cancel": "turn",
    "approvals.list": "store",
    "approvals.get": "store",
    "approvals.context": "request",
    "approvals.events": "store",
    "approvals.decide": "request",
    "questions.list": "questions",
    "questions.answer": "questions",
    "grants.list": "store",
    "grants.get": "store",
    "grants.preview": "store",
    "grants.revoke": "grant",
    "artifacts.get": "session",
    "calls.list": "store",
    "calls.sums": "store",
    "records.list": "session",
    "catalog.list": "session",
    "catalog.get": "session",
    "policy.explain": "session",
    "policy.get": "store",
    "policy.check": "store",
    "policy.preview": "store",
    "servers.list": "store",
    "events.list": "session",
}
"""Every operation. A new one is entered here before it can be asked for on a shared store."""

_READS: Final = frozenset(
    {
        "session.get",
        "tools.list",
        "tools.info",
        "approvals.context",
        "questions.list",
        "artifacts.get",
        "records.list",
        "catalog.list",
        "catalog.get",
        "policy.explain",
        "events.list",
    }
)
_SAME_AGAIN: Final = frozenset({"session.resume", "tools.cancel", "grants.revoke"})
"""Operations that change nothing more when they are done twice."""
_FROM_STORE: Final = frozenset(
    {
        "session.get",
        "approvals.context",
        "approvals.decide",
        "artifacts.get",
        "records.list",
        "events.list",
    }
)
"""Operations that any replica answers from the store, when the holder cannot be asked."""

PATIENCE_SECONDS: Final = 30.0
"""How long a session that is somewhere else is looked for: longer than a lease runs."""
LOOK_SECONDS: Final = 2.0
"""How often a replica that has not answered yet is looked at: it may have gone."""
_QUESTION_SECONDS: Final = 5.0
"""How long another replica is asked for its questions."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5

_log = logging.getLogger(__name__)


class ReplicaLink(Protocol):
    """The way to other replicas, provided by a transport."""

    async def ask(self, replica: Replica, body: bytes) -> bytes:
        """The answer of another replica to a `ForwardedOperation`. Raises `ReplicaUnreachable` and
        `AnswerLost`.
        """
        ...


@dataclass(frozen=True, slots=True)
class ForwardedOperation:
    """An operation on its way to the replica that has its session open."""

    operation: str
    params: dict[str, Any]
    who: Principal
    session_id: str | None
    """The session that must be open there; None for one of any session."""

    @classmethod
    def read(cls, body: bytes) -> ForwardedOperation:
        """What another replica wrote. Raises `Refused` (invalid)."""
        try:
            return _forwarded().validate_json(body)
        except (ValidationError, UsageError):
            raise Refused("invalid", "this is not a forwarded operation") from None


def answer_json(result: object) -> bytes:
    """The answer to a forwarded operation."""
    return to_json({"result": result}, inf_nan_mode="strings", fallback=str)


def refusal_json(refused: Refused) -> bytes:
    """The answer to a forwarded operation that was refused."""
    facts = {"kind": refused.kind, "message": refused.message, "facts": refused.facts}
    return to_json({"refused": facts}, inf_nan_mode="strings", fallback=str)


NOT_HERE: Final = b'{"not_here":true}'
"""The answer of a replica that does not have the session open."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An operation that is bound to a session."""

    operation: Operation
    service: Service
    params: Any
    who: Principal
    session_id: str

    @property
    def body(self) -> bytes:
        return _body(self.operation, self.params, self.who, self.session_id)

    @property
    def may_repeat(self) -> bool:
        """Whether it may be asked for again, although it may have been done."""
        name, params = self.operation.name, self.params
        if name in _READS or name in _SAME_AGAIN:
            return True
        is_named = name == "tools.call" and params.call_id is not None
        return is_named or getattr(params, "idempotency_key", None) is not None

    async def run_here(self) -> Any:
        return await self.operation.run(self.service, self.params, self.who)


class ReplicaRoutes:
    """Answers each operation at the replica where its session is open."""

    def __init__(self, store: SharedStore, sessions: LiveSessions) -> None:
        self._store = store
        self._sessions = sessions
        self._unsubscribe: Callable[[], None] | None = None
        self.link: ReplicaLink | None = None
        """Without one nothing is forwarded: a session that is open elsewhere is a conflict."""

    def start(self) -> None:
        """Hear of decisions that were made elsewhere."""
        loop = asyncio.get_running_loop()

        def wake(session_id: str) -> None:
            live = self._sessions.find(session_id)
            if live is not None:
                live.decision_made()

        def listen(hint: Hint) -> None:
            if hint.topic == "decision":
                # A loop that is closed runs nothing any more.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(wake, hint.subject)

        self._unsubscribe = self._store.on_hint(listen)

    def close(self) -> None:
        """Hear no more."""
        if self._unsubscribe is not None:
            self._unsubscribe()

    async def ask(
        self, operation: Operation, service: Service, params: object, who: Principal
    ) -> Any:
        """Answer an operation here, or have its holder answer it."""
        who.check(operation.roles, operation.name)
        typed = operation.read(params)
        binding = BINDINGS[operation.name]
        if self.link is None or binding == "store" or binding == "turn":
            return await operation.run(service, typed, who)
        if binding == "questions":
            return await self._ask_all(operation, service, typed, who)
        session_id = await self._session_of(binding, typed)
        if session_id is None or self._sessions.find(session_id) is not None:
            return await operation.run(service, typed, who)
        return await self._ask_holder(self.link, _Asked(operation, service, typed, who, session_id))

    async def _session_of(
        self, binding: Literal["session", "request", "grant"], typed: Any
    ) -> str | None:
        store = self._store
        match binding:
            case "session":
                return getattr(typed, "session_id", None)
            case "request":
                filed = await ask_store(store, store.approval, typed.approval_id)
                return None if filed is None else filed.request.session_id
            case "grant":
                grant = await ask_store(store, store.grant, typed.grant_id)
                return None if grant is None else grant.session_id
            case _:
                assert_never(binding)

    async def _ask_holder(self, link: ReplicaLink, asked: _Asked) -> Any:
        """Look for the holder until it answers, or until the session can be opened here."""
        until, pause = time.monotonic() + PATIENCE_SECONDS, _FIRST_PAUSE
        why = "it does not let the session go"
        while True:
            is_last = time.monotonic() >= until
            try:
                return await self._ask_once(link, asked, is_last=is_last)
            except SessionElsewhere:
                if is_last:
                    raise _out_of_reach(asked, why) from None
            except SessionNotHere as error:
                why = str(error)
            except AnswerLost:
                if not asked.may_repeat:
                    raise Refused(
                        "unavailable",
                        "the replica that has the session open did not answer; it is not known "
                        f"whether {asked.operation.name} was done. Look before you ask again",
                        {"is_unknown": True},
                    ) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _ask_once(self, link: ReplicaLink, asked: _Asked, *, is_last: bool) -> Any:
        store, name = self._store, asked.operation.name
        holder = await ask_store(store, store.holder, asked.session_id)
        if holder is None or holder.replica_id == store.replica_id or is_last:
            return await asked.run_here()
        try:
            if holder.address is None:
                raise ReplicaUnreachable("it takes no requests")
            body = await self._asked(link, holder, asked)
        except ReplicaUnreachable as error:
            _log.debug("%s is not forwarded to %s: %s", name, holder.replica_id, error)
            if name in _FROM_STORE:
                return await asked.run_here()
            raise SessionNotHere(f"replica {holder.replica_id}: {error}") from None
        return _result(asked.operation, body)

    async def _asked(self, link: ReplicaLink, holder: Replica, asked: _Asked) -> bytes:
        """The answer of a replica, for as long as it is there. Raises as `ReplicaLink.ask`."""
        asking = asyncio.ensure_future(link.ask(holder, asked.body))
        try:
            while True:
                done, _ = await asyncio.wait([asking], timeout=LOOK_SECONDS)
                if done:
                    return asking.result()
                now = await ask_store(self._store, self._store.holder, asked.session_id)
                if now is None or now.replica_id != holder.replica_id:
                    # It may have let go right after the work: an answer is on its way then.
                    done, _ = await asyncio.wait([asking], timeout=LOOK_SECONDS)
                    if done:
                        return asking.result()
                    raise AnswerLost("the replica is gone")
        finally:
            asking.cancel()

    async def _ask_all(
        self, operation: Operation, service: Service, typed: Any, who: Principal
    ) -> Any:
        """Questions are where their calls run: here, or at another replica."""
        if operation.name == "questions.list":
            own = await operation.run(service, typed, who)
            others = [each async for each in self._answers(operation, typed, who)]
            return replace(
                own, questions=[*own.questions, *(q for o in others for q in o.questions)]
            )
        try:
            return await operation.run(service, typed, who)
        except Refused as refused:
            if refused.kind != "not_found":
                raise
            async for answer in self._answers(operation, typed, who):
                return answer
            raise

    async def _answers(
        self, operation: Operation, typed: Any, who: Principal
    ) -> AsyncGenerator[Any]:
        """The answers of the other replicas; those that cannot be asked, and find nothing, are left
        out.
        """
        link, store = self.link, self._store
        assert link is not None, "asked with a link"
        body = _body(operation, typed, who, None)
        for each in await ask_store(store, store.replicas):
            if each.address is None or each.replica_id == store.replica_id:
                continue
            try:
                async with asyncio.timeout(_QUESTION_SECONDS):
                    answer = _result(operation, await link.ask(each, body))
            except (ReplicaUnreachable, AnswerLost, SessionNotHere, TimeoutError) as error:
                _log.warning("replica %s was not asked for questions: %s", each.replica_id, error)
                continue
            except Refused as refused:
                if refused.kind != "not_found":
                    raise
                continue
            yield answer


def _out_of_reach(asked: _Asked, why: str) -> SessionElsewhere:
    _log.warning("session %s is open elsewhere, out of reach: %s", asked.session_id, why)
    return SessionElsewhere(
        "another replica has the session open and cannot be asked, so that "
        f"{asked.operation.name} was not done; try again, and see the log of this server for the "
        "cause: replicas need each other's addresses, the same store key and clocks that agree"
    )


def _body(operation: Operation, params: object, who: Principal, session_id: str | None) -> bytes:
    as_json = from_json(to_json(params))
    return to_json(ForwardedOperation(operation.name, as_json, who, session_id))


def _result(operation: Operation, body: bytes) -> Any:
    """The typed result of an answer. Raises `Refused` and `SessionNotHere`."""
    answer = from_json(body)
    match answer:
        case {"not_here": True}:
            raise SessionNotHere("the session is not open there")
        case {"refused": {"kind": kind, "message": message, "facts": facts}}:
            raise Refused(kind, message, facts)
        case {"result": result}:
            return _adapter(operation.result).validate_python(result)
        case _:
            raise AnswerLost("the answer is not one of this version")


@cache
def _adapter(result: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(result)


@cache
def _forwarded() -> TypeAdapter[ForwardedOperation]:
    return TypeAdapter(ForwardedOperation)
