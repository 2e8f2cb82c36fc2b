"""Prompts on a store that replicas share: accepted once they are durable, run by any replica, and
waited for here.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from toolcrib.errors import Refused
from toolcrib.runtime.idempotency import MAX_KEY_CHARS, key_conflict
from toolcrib.runtime.prompt_operations import ANSWER_KINDS, NO_AGENT, answer_among
from toolcrib.runtime.session_setup import OPEN_PROMPT
from toolcrib.runtime.turn_messages import TurnOutcome, read_outcome, read_request, turn_request
from toolcrib.runtime.turn_slot import MAX_QUEUED
from toolcrib.store.shared_store import QueuedTurn
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolcrib.runtime.config import RuntimeConfig, WhenBusy
    from toolcrib.runtime.messages import PromptResult, ResumePrompt, SendPrompt
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.runtime.turn_outcomes import SettledTurn, TurnOutcomes
    from toolcrib.store.shared_store import SharedStore
    from toolcrib.store.store import SessionInfo


class QueuedTurns:
    """Sends, resumes and cancels prompts as turns of the store. `wake` has a session's turn taken
    up soon.
    """

    def __init__(
        self,
        store: SharedStore,
        sessions: LiveSessions,
        outcomes: TurnOutcomes,
        wake: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._outcomes = outcomes
        self._wake = wake
        self.is_closing = False
        """Whether prompts are accepted no more: this process ends."""

    async def send(self, params: SendPrompt, who: Principal, config: RuntimeConfig) -> PromptResult:
        """Queue a prompt, and wait for its answer; without `waits`, no longer than until it waits
        for somebody.
        """
        await self._sessions.changeable(params.session_id, who)
        if self.is_closing:
            raise Refused("closing", "the runtime is closing; no new prompts are accepted")
        if config.adapter is None:
            raise Refused("unavailable", NO_AGENT)
        when_busy = params.when_busy or config.when_busy
        digest = _digest(params)
        turn = QueuedTurn(
            _turn_id("prompt.send", params.session_id, params.idempotency_key, who),
            params.session_id,
            turn_request(params.text, who, waits=params.waits, digest=digest),
            gives_way=not params.waits,
            is_kept=params.idempotency_key is not None,
        )
        queued = await self._queued(turn, when_busy, who)
        if params.idempotency_key is not None:
            _check_digest(queued, digest, params.idempotency_key)
        return await self._result(queued, waits=params.waits)

    async def resume(
        self, params: ResumePrompt, who: Principal, config: RuntimeConfig
    ) -> PromptResult:
        """Wait for the prompt that has not ended; one that failed is tried again. Raises `Refused`
        (conflict) when there is none.
        """
        info = await self._sessions.changeable(params.session_id, who)
        if config.adapter is None:
            raise Refused("unavailable", NO_AGENT)
        digest, key = _digest(params), params.idempotency_key
        turn_id = _turn_id("prompt.resume", params.session_id, key, who)
        earlier = await self._turn(turn_id) if key is not None else None
        if earlier is not None and key is not None:
            _check_digest(earlier, digest, key)
            return await self._result(earlier, waits=params.waits)
        going_on = await self.going_on(params.session_id)
        if going_on is not None:
            await self._wake(params.session_id)
            return await self._result(going_on, waits=params.waits)
        if OPEN_PROMPT in info.settings.get("host", {}):
            turn = QueuedTurn(
                turn_id,
                params.session_id,
                turn_request(None, who, waits=params.waits, digest=digest),
                gives_way=not params.waits,
                is_kept=key is not None,
            )
            return await self._result(await self._queued(turn, "reject", who), waits=params.waits)
        return await self._ended(info)

    async def going_on(self, session_id: str) -> QueuedTurn | None:
        """The prompt of a session that has not ended, and is the next to."""
        turns = await ask_store(self._store, lambda: self._store.turns(session_id=session_id))
        return turns[0] if turns else None

    async def awaited(self, turn: QueuedTurn, *, waits: bool) -> PromptResult:
        """What comes of a turn, whoever runs it; without `waits`, no later than when it waits for
        somebody.
        """
        return await self._result(turn, waits=waits)

    async def check_free(self, session_id: str, key: str | None, who: Principal) -> bool:
        """Raise `Refused` (busy) when a prompt that is sent with `when_busy: reject` would be, so
        that nothing is prepared for it. Returns whether it runs already, under the same key.
        """
        turn = await self.going_on(session_id)
        if turn is None or (turn.state == "waiting" and turn.gives_way):
            return False
        await self._sessions.changeable(session_id, who)
        if key is None or turn.turn_id != _turn_id("prompt.send", session_id, key, who):
            raise _busy("reject")
        return True

    async def cancel(self, session_id: str, who: Principal) -> bool:
        """Cancel the first prompt that has not ended, and wait for its end; False when there is
        none.
        """
        await self._sessions.changeable(session_id, who)
        turn = await ask_store(self._store, self._store.cancel_turn, session_id, who.name)
        if turn is None:
            return False
        await self._wake(session_id)
        await self._outcomes.settled(turn, until_waiting=False)
        return True

    async def _queued(self, turn: QueuedTurn, when_busy: WhenBusy, who: Principal) -> QueuedTurn:
        def queue() -> QueuedTurn | None:
            return self._store.queue_turn(
                turn, when_busy=when_busy, most_queued=MAX_QUEUED, by=who.name
            )

        queued = await ask_store(self._store, queue)
        if queued is None:
            raise _busy(when_busy)
        if queued.state != "ended":
            await self._wake(turn.session_id)
        return queued

    async def _ended(self, info: SessionInfo) -> PromptResult:
        """What came of the last turn, for one who was told that it waits: it goes on by itself
        once it is decided.
        """
        last = await ask_store(self._store, self._store.last_turn, info.session_id)
        outcome = None if last is None or last.outcome is None else read_outcome(last.outcome)
        if last is None or outcome is None or not outcome.has_waited:
            raise Refused("conflict", "the session has no prompt to resume; send one")
        return await self._result(last, waits=False)

    async def _turn(self, turn_id: str) -> QueuedTurn | None:
        turns = await ask_store(self._store, lambda: self._store.turns(turn_ids=[turn_id]))
        return turns[0] if turns else None

    async def _result(self, turn: QueuedTurn, *, waits: bool) -> PromptResult:
        settled = await self._outcomes.settled(turn, until_waiting=not waits)
        if settled.result is not None:
            return settled.result
        return await self._read(settled)

    async def _read(self, settled: SettledTurn) -> PromptResult:
        """The result of a turn that another replica ran: its answer is in the ledger."""
        turn = settled.turn
        outcome = TurnOutcome("") if turn.outcome is None else read_outcome(turn.outcome)
        if outcome.refusal is not None:
            raise outcome.refusal
        result = outcome.result
        if result is None:
            raise Refused("internal", "the turn has no result; see the log of who ran it")
        if result.status != "completed":
            return result

        def answer() -> str | None:
            newest = self._store.records(turn.session_id, kinds=ANSWER_KINDS, newest_first=True)
            return answer_among(newest, result.turn)

        text = await ask_store(self._store, answer)
        if text is None:
            raise Refused("conflict", "what the prompt answered was deleted")
        return replace(result, text=text)


def _turn_id(operation: str, session_id: str, key: str | None, who: Principal) -> str:
    """The id of a turn: made of its idempotency key, so that it is the same on every replica."""
    if key is None:
        return f"turn_{secrets.token_hex(12)}"
    if not 0 < len(key) <= MAX_KEY_CHARS:
        raise Refused("invalid", f"an idempotency key has 1 to {MAX_KEY_CHARS} characters")
    facts = to_json([operation, session_id, who.name, key])
    return f"turn_key_{sha256(facts).hexdigest()[:32]}"


def _digest(params: Any) -> str:
    return sha256(to_json(params)).hexdigest()


def _check_digest(turn: QueuedTurn, digest: str, key: str) -> None:
    """Raise `Refused` (conflict) for a key that was used for something else."""
    if turn.state == "ended":
        known = read_outcome(turn.outcome).digest if turn.outcome is not None else digest
    else:
        known = read_request(turn.request).digest
    if known != digest:
        raise key_conflict(key)


def _busy(when_busy: WhenBusy) -> Refused:
    if when_busy == "enqueue":
        return Refused("busy", f"the session has {MAX_QUEUED} queued prompts already")
    return Refused(
        "busy",
        "the session is answering another prompt; wait for it, cancel it, or send when_busy: "
        "enqueue",
    )
