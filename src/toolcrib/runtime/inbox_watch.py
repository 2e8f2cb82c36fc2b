"""The inbox as a stream: how much waits for a person, and again whenever that changes.

The store says cheaply whether its inbox may have changed, also by another process. Only then is the
inbox of each reader looked at. Nothing is looked at while nobody reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from toolcrib.runtime.approval_messages import InboxState, ListQuestions
from toolcrib.runtime.approval_operations import viewer_of
from toolcrib.runtime.question_operations import open_questions
from toolcrib.store.approval_query import ApprovalQuery
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.principal import Principal
    from toolcrib.store.store import Store

LOOK_SECONDS: Final = 0.25
"""How often the store is asked whether something changed, while somebody reads."""
_MOST_IDS: Final = 100

_log = logging.getLogger(__name__)

_Marks = dict[str, object]


class InboxWatch:
    """Looks for changes on behalf of all readers of one runtime."""

    def __init__(
        self,
        store: Store,
        sessions: Iterable[LiveSession],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._sleep = sleep
        self._feeds: set[InboxFeed] = set()
        self._task: asyncio.Task[None] | None = None

    async def state(self, who: Principal) -> InboxState:
        """How much waits now, of what a principal may see."""
        marks = await self.marks(who)
        return _state(marks, marks)

    def follow(self, who: Principal) -> InboxFeed:
        """A stream of states for a principal. The caller closes it."""
        feed = InboxFeed(self, who)
        self._feeds.add(feed)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look_again_and_again())
        return feed

    def forget(self, feed: InboxFeed) -> None:
        """End a stream; the last one ends the looking."""
        self._feeds.discard(feed)
        if not self._feeds and self._task is not None:
            self._task.cancel()
            self._task = None

    async def marks(self, who: Principal) -> _Marks:
        """What waits, by id, each with a value that changes with it."""
        query = ApprovalQuery(viewer=viewer_of(who), state="pending")

        def read() -> _Marks:
            self._store.expire(self._store.clock())
            return self._store.inbox_marks(query)

        marks = await ask_store(self._store, read)
        return {**marks, **dict.fromkeys(self._questions(who), _QUESTION)}

    def _questions(self, who: Principal) -> list[str]:
        if not (who.may("caller") or who.may("auditor")):
            return []
        visible = open_questions(self._sessions, ListQuestions(), who)
        return [question.question_id for question in visible.questions]

    def _version(self) -> int:
        # A request whose time is over changes the inbox, though nobody did anything.
        self._store.expire(self._store.clock())
        return self._store.inbox_version()

    async def _look_again_and_again(self) -> None:
        last: tuple[int, frozenset[str]] | None = None
        while True:
            await self._sleep(LOOK_SECONDS)
            try:
                version = await ask_store(self._store, self._version)
            except Exception:
                _log.exception("the inbox could not be looked at for its readers")
                continue
            open_now = frozenset(
                question.question_id
                for live in self._sessions
                for question in live.session.questions.pending()
            )
            if (version, open_now) != last:
                last = (version, open_now)
                for feed in self._feeds:
                    feed.look()


class InboxFeed:
    """The states of one principal's inbox: the state now, then each that differs from the last.

    A reader that was away begins anew and reads the inbox again: the first state is the whole.
    """

    def __init__(self, watch: InboxWatch, who: Principal) -> None:
        self._watch = watch
        self._who = who
        self._changed = asyncio.Event()
        self._is_closed = False

    def look(self) -> None:
        """Compare the inbox with the last state."""
        self._changed.set()

    def close(self) -> None:
        """End the stream."""
        self._is_closed = True
        self._watch.forget(self)
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[InboxState]:
        marks = await self._watch.marks(self._who)
        yield _state(marks, marks)
        while not self._is_closed:
            await self._changed.wait()
            self._changed.clear()
            if self._is_closed:
                return
            before, marks = marks, await self._watch.marks(self._who)
            if marks != before:
                yield _state(marks, before)


_QUESTION: Final = object()
"""The mark of a question."""


def _state(marks: _Marks, before: _Marks) -> InboxState:
    questions = sum(mark is _QUESTION for mark in marks.values())
    return InboxState(
        waiting=len(marks) - questions,
        questions=questions,
        added=[each for each in marks if each not in before][:_MOST_IDS],
        changed=[each for each in marks if each in before and marks[each] != before[each]][
            :_MOST_IDS
        ],
        removed=[each for each in before if each not in marks][:_MOST_IDS],
    )
