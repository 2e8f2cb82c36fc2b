"""Turns that this process has claimed from a shared store: begun or resumed under the lease that
each brought, until they are answered or wait, and then settled together with it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import (
    LeaseLost,
    LedgerBroken,
    Refused,
    SessionElsewhere,
    SessionNotFound,
    StoreError,
)
from toolcrib.runtime.live_session import wait_at_most
from toolcrib.runtime.messages import PromptResult
from toolcrib.runtime.prompt_operations import (
    NO_AGENT,
    PromptRunner,
    abandon_prompt,
    answer_of,
    prompt_without_answer,
    turn_of,
)
from toolcrib.runtime.session_setup import OPEN_PROMPT, TURN_BEGUN
from toolcrib.runtime.turn_messages import TurnOutcome, TurnRequest, read_request, turn_outcome
from toolcrib.runtime.turn_outcomes import SettledTurn
from toolcrib.runtime.turn_progress import Advanced, advanced, next_deadline
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.runtime.turn_outcomes import TurnOutcomes
    from toolcrib.store.shared_store import ClaimedTurn, Hint, QueuedTurn, SharedStore

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 2.0
"""How long a turn that runs here may be cancelled elsewhere without a hint before it ends."""
_STEP_SECONDS: Final = 0.01
"""How often a process that ends looks whether a handler has ended."""
_LATER: Final = ("unavailable", "busy", "closing", "too_many_requests", "internal")
"""Refusals of this process at this time: the turn is tried again, here or elsewhere."""
_MOST_FAILURES: Final = 5
"""How often a turn may fail unexpectedly before it is given up."""
_LONGEST_PAUSE_SECONDS: Final = 60.0


@dataclass(slots=True, eq=False)
class _Run:
    claimed: ClaimedTurn
    live: LiveSession | None = None
    cancelled_by: str | None = None
    is_left: bool = False
    """Whether it is being handed over."""

    @property
    def is_calling(self) -> bool:
        """Whether a handler runs, whose effect would be in doubt for whoever goes on."""
        state = None if self.live is None else self.live.session.executor_state
        return state is not None and bool(state.running_ids)


class ClaimedTurns:
    """Runs the turns that were claimed for this process."""

    def __init__(
        self,
        store: SharedStore,
        sessions: LiveSessions,
        config: Callable[[], RuntimeConfig],
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._runs: dict[str, _Run] = {}
        self._look = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._stopping: set[asyncio.Task[None]] = set()
        """Prompts that were cancelled and have yet to end."""
        self._unsubscribe = store.on_hint(self._hear)
        self.outcomes: TurnOutcomes | None = None
        """Who is told of turns that are settled here."""

    def runs(self, turn_id: str) -> bool:
        """Whether this process runs a turn now."""
        return turn_id in self._runs

    async def close(self) -> None:
        """Hear nothing more."""
        self._unsubscribe()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def hand_back(self, claimed: ClaimedTurn) -> None:
        """Leave a turn that was claimed and not begun to others, at once."""
        await self._end(_Run(claimed), replace(claimed.turn, state="queued"))

    async def hand_over(self, seconds: float) -> None:
        """Leave the turns that run here to other replicas: each as soon as none of its handlers
        runs, and after `seconds` in any case. Without another replica they may end until then.
        """
        has_others = await self._has_others() if self._runs else False
        ends_at = self._loop.time() + seconds
        leaving: list[asyncio.Task[None]] = []
        while self._runs:
            is_late = self._loop.time() >= ends_at
            runs = [run for run in self._runs.values() if not run.is_left]
            for run in runs:
                live = run.live
                if live is None:
                    continue
                # Nobody waits here any more for a person who may never answer.
                live.stop_waiting()
                if is_late or (has_others and not run.is_calling):
                    run.is_left = True
                    leaving.append(asyncio.create_task(self._sessions.give_up(live)))
            if is_late and all(run.live is None for run in runs):
                break
            await asyncio.sleep(_STEP_SECONDS)
        await asyncio.gather(*leaving, return_exceptions=True)

    async def _has_others(self) -> bool:
        try:
            replicas = await ask_store(self._store, self._store.replicas)
        except StoreError:
            return False
        return any(replica.replica_id != self._store.replica_id for replica in replicas)

    async def run(self, claimed: ClaimedTurn, *, leaves_idle: bool = False) -> Advanced:
        """Go on with a turn until it is answered or waits. Whatever happens, the turn is settled,
        or due again for whoever comes next. With `leaves_idle`, a session that is open here and
        that nobody uses is let go for others.
        """
        turn = claimed.turn
        run = self._runs[turn.turn_id] = _Run(claimed, cancelled_by=turn.cancelled_by)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        if not claimed.was_held:
            self._sessions.claimed(claimed.lease)
        try:
            return await self._run(run, leaves_idle=leaves_idle)
        except SessionNotFound:
            logger.info("the session %s was deleted while its turn ran", turn.session_id)
        except LeaseLost:
            await self._cut_off(run)
        except LedgerBroken as error:
            logger.error("the turn of the session %s cannot be run: %s", turn.session_id, error)
            return await self._refused(run, Refused("conflict", str(error)))
        except StoreError as error:
            logger.warning("the turn of the session %s was cut off: %s", turn.session_id, error)
            await self._cut_off(run, _pause(turn))
        except Refused as refused:
            return await self._refused(run, refused)
        except Exception as error:
            logger.exception("the turn of the session %s failed", turn.session_id)
            message = f"the prompt failed unexpectedly ({type(error).__name__}); see the log"
            return await self._refused(run, Refused("internal", message))
        finally:
            self._forget(run)
        return Advanced(turn.session_id, "elsewhere")

    def _forget(self, run: _Run) -> None:
        turn_id = run.claimed.turn.turn_id
        self._sessions.disclaim(run.claimed.lease)
        # This process may have taken the turn up again before it noticed that it had lost it.
        if self._runs.get(turn_id) is run:
            del self._runs[turn_id]
        if self.outcomes is not None:
            self.outcomes.look_again(turn_id)

    async def _run(self, run: _Run, *, leaves_idle: bool) -> Advanced:
        claimed, config = run.claimed, self._config()
        turn, request = claimed.turn, read_request(claimed.turn.request)
        if run.cancelled_by is not None and not await self._was_begun(turn):
            result = PromptResult(session_id=turn.session_id, turn=0, status="cancelled")
            await self._settle(claimed, request, result, None, releases=not claimed.was_held)
            return advanced(result)
        live = run.live = await self._opened(claimed)
        if leaves_idle and claimed.was_held and not live.is_in_use:
            # Open by chance: what drives the turns finds it once the session is let go.
            await self._end(run, replace(turn, state="queued"), is_left=True)
            return Advanced(turn.session_id, "elsewhere")
        if config.adapter is None:
            raise Refused("unavailable", NO_AGENT)
        runner = PromptRunner(
            live, config.adapter, config.instructions, request.caller, config.budget
        )
        result = await live.slot.run(lambda: self._work(run, runner, request), "reject")
        if result is None and live.is_closing:
            # Closing let it go, not a person: whoever takes the session goes on.
            await live.is_closed.wait()
            await self._leave(claimed)
            return Advanced(turn.session_id, "elsewhere")
        if result is None:
            result = await prompt_without_answer(live, "cancelled")
        wake_at = await next_deadline(self._store, result.pending)

        async def settle(releases: bool) -> None:
            await self._settle(claimed, request, result, wake_at, releases=releases)

        await self._sessions.close_claimed(live, settle)
        return advanced(result, wake_at)

    async def _opened(self, claimed: ClaimedTurn) -> LiveSession:
        """The session of a turn, under the lease that the turn has."""
        session_id = claimed.lease.session_id
        if claimed.was_held:
            live = self._sessions.find(session_id)
            if live is None or live.session.lease != claimed.lease or live.is_closing:
                raise Refused("busy", "something else in this process has the session")
            return live
        live = await self._sessions.open_claimed(session_id)
        if live.session.lease != claimed.lease:
            raise LeaseLost("the session was opened again under another lease")
        return live

    async def _was_begun(self, turn: QueuedTurn) -> bool:
        info = await ask_store(self._store, self._store.session, turn.session_id)
        mark: Any = info.settings.get("host", {}).get(TURN_BEGUN)
        return mark is not None and mark["turn_id"] == turn.turn_id

    async def _work(self, run: _Run, runner: PromptRunner, request: TurnRequest) -> PromptResult:
        """Begin the prompt, or go on where the ledger says that it is."""
        live, turn_id = runner.live, run.claimed.turn.turn_id
        session = live.session
        mark: Any = session.host_setting(TURN_BEGUN) or {}
        is_marked = mark.get("turn_id") == turn_id
        number = await turn_of(live)
        is_open = session.host_setting(OPEN_PROMPT) is not None
        if not is_marked and request.text is None:
            mark = {"turn_id": turn_id, "after": number - 1}
            session.set_host_setting(TURN_BEGUN, mark)
            is_marked = True
        if is_marked and number > mark["after"]:
            return await self._go_on(run, runner, request, number, is_open=is_open)
        if run.cancelled_by is not None:
            return await prompt_without_answer(live, "cancelled")
        if is_marked:
            # Nothing but the text was saved: not even the prompt before is to be abandoned.
            session.set_host_setting(OPEN_PROMPT, None)
        session.set_host_setting(TURN_BEGUN, {"turn_id": turn_id, "after": session.last_turn})
        return await runner.send(request.text or "", waits=False, holds_calls=request.waits)

    async def _go_on(
        self,
        run: _Run,
        runner: PromptRunner,
        request: TurnRequest,
        number: int,
        *,
        is_open: bool,
    ) -> PromptResult:
        live = runner.live
        answer = await answer_of(live, number)
        if answer is not None:
            live.session.set_host_setting(OPEN_PROMPT, None)
            session_id = live.session.session_id
            return PromptResult(session_id=session_id, turn=number, status="completed", text=answer)
        if run.cancelled_by is not None or not is_open:
            await abandon_prompt(live, by=run.cancelled_by)
            return await prompt_without_answer(live, "cancelled")
        return await runner.resume(waits=False, holds_calls=request.waits)

    async def _settle(
        self,
        claimed: ClaimedTurn,
        request: TurnRequest,
        result: PromptResult,
        wake_at: float | None,
        *,
        releases: bool,
    ) -> None:
        turn, is_waiting = claimed.turn, result.status == "waiting"
        outcome = TurnOutcome(
            request.digest, result, has_waited=is_waiting or turn.outcome is not None
        )
        settled = replace(
            turn,
            state="waiting" if is_waiting else "ended",
            outcome=turn_outcome(outcome),
            pending=tuple(result.pending),
            wake_at=wake_at,
            failures=0 if is_waiting else turn.failures,
        )
        await self._save(claimed, settled, releases=releases)
        self._tell(SettledTurn(settled, result))

    async def _save(
        self,
        claimed: ClaimedTurn,
        settled: QueuedTurn,
        *,
        releases: bool,
        pause_seconds: float = 0.0,
    ) -> None:
        def save() -> None:
            self._store.settle_turn(
                claimed, settled, releases=releases, pause_seconds=pause_seconds
            )

        await ask_store(self._store, save)

    async def _refused(self, run: _Run, refused: Refused) -> Advanced:
        """Try a turn again later that this process could not run now; end one that nobody can."""
        turn = run.claimed.turn
        failed = replace(turn, failures=turn.failures + 1)
        is_passing = refused.kind in _LATER or isinstance(refused, SessionElsewhere)
        is_hopeless = not is_passing or (
            refused.kind == "internal" and failed.failures >= _MOST_FAILURES
        )
        if not is_hopeless:
            pause = _pause(turn)
            logger.warning(
                "the turn of the session %s cannot be run now and is tried again in %.1f s: %s",
                turn.session_id,
                pause,
                refused,
            )
            await self._end(run, replace(failed, state="queued"), pause)
            return Advanced(turn.session_id, "elsewhere")
        outcome = TurnOutcome(
            read_request(turn.request).digest, None, refused.kind, refused.message, refused.facts
        )
        settled = replace(failed, state="ended", outcome=turn_outcome(outcome), pending=())
        if not await self._end(run, settled):
            return Advanced(turn.session_id, "elsewhere")
        self._tell(SettledTurn(settled))
        return Advanced(turn.session_id, "failed")

    async def _end(
        self,
        run: _Run,
        settled: QueuedTurn,
        pause_seconds: float = 0.0,
        *,
        is_left: bool = False,
    ) -> bool:
        """Settle a turn that was not run to its end, and let its session go; False when the store
        does not take it, and others go on with the turn.
        """
        claimed = run.claimed

        async def settle(releases: bool) -> None:
            await self._save(claimed, settled, releases=releases, pause_seconds=pause_seconds)

        try:
            if run.live is None:
                await settle(not claimed.was_held)
            else:
                await self._sessions.close_claimed(run.live, settle, even_used=is_left)
        except StoreError as error:
            logger.warning("the turn of the session %s: %s", claimed.turn.session_id, error)
            is_lost = isinstance(error, LeaseLost)
            await self._cut_off(run, 0.0 if is_lost else _pause(claimed.turn))
            return False
        return True

    async def _cut_off(self, run: _Run, pause_seconds: float = 0.0) -> None:
        """Let another run go on with a turn, here or elsewhere, as soon as the session is free and
        the pause is over.
        """
        claimed = run.claimed
        if pause_seconds:
            # First: whoever finds a turn whose session is free takes it up at once.
            await self._leave(claimed, pause_seconds)
        if run.live is not None:
            await self._sessions.let_go(run.live)
        elif not claimed.was_held:
            with suppress(StoreError):
                await ask_store(self._store, self._store.release, claimed.lease)
        if not pause_seconds:
            await self._leave(claimed)

    async def _leave(self, claimed: ClaimedTurn, pause_seconds: float = 0.0) -> None:
        def leave() -> None:
            self._store.leave_turn(claimed, pause_seconds=pause_seconds)

        with suppress(StoreError):
            await ask_store(self._store, leave)

    def _tell(self, settled: SettledTurn) -> None:
        if self.outcomes is not None:
            self.outcomes.tell(settled)

    def _hear(self, hint: Hint) -> None:
        if hint.topic in ("cancel", "decision"):
            # A loop that is closed hears nothing any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._heard, hint)

    def _heard(self, hint: Hint) -> None:
        if hint.topic == "cancel":
            self._look.set()
        elif (live := self._sessions.find(hint.subject)) is not None:
            live.decision_made()

    async def _watch(self) -> None:
        """Cancel the turns that run here and were cancelled anywhere."""
        while self._runs:
            await wait_at_most(self._look, _POLL_SECONDS * random.uniform(0.5, 1.0))
            self._look.clear()
            try:
                for turn in await ask_store(self._store, self._store.cancelled_turns):
                    self._cancel(turn)
            except Exception as error:
                logger.warning("turns that were cancelled cannot be read: %s", error)
        self._watching = None

    def _cancel(self, turn: QueuedTurn) -> None:
        run = self._runs.get(turn.turn_id)
        if run is None or run.cancelled_by is not None:
            return
        run.cancelled_by = turn.cancelled_by
        if run.live is not None and not run.live.is_closing:
            # Not awaited: a handler may take long to end, and other turns are cancelled meanwhile.
            task = asyncio.create_task(_stop(run.live, turn.cancelled_by))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)


def _pause(turn: QueuedTurn) -> float:
    """How long a turn that failed rests before it is tried again: longer each time."""
    pause = min(0.5 * 2 ** min(turn.failures, 16), _LONGEST_PAUSE_SECONDS)
    return pause * random.uniform(0.5, 1.0)


async def _stop(live: LiveSession, by: str | None) -> None:
    """Cancel the prompt that runs in a session, and wait for its end."""
    live.stopped_by = by
    try:
        await live.slot.cancel()
    finally:
        live.stopped_by = None
