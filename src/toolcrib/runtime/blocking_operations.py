"""The typed operations and their events for programs without an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from toolcrib.runtime.typed_operations import TypedOperations

if TYPE_CHECKING:
    from toolcrib.ledger.events import Event
    from toolcrib.runtime.approval_messages import ApprovalFacts
    from toolcrib.runtime.session_events import SessionEvents

P = ParamSpec("P")
T = TypeVar("T")


class Complete(Protocol):
    """Runs a coroutine on the loop of the operations, and returns its result."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


def _blocking(
    method: Callable[Concatenate[TypedOperations, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingOperations, P], T]:
    """The method of the same name, for a caller that waits for its result."""
    name = method.__name__

    @wraps(method)
    def run(self: BlockingOperations, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.complete(getattr(self.operations, name)(*args, **kwargs))

    return run


class BlockingOperations:
    """Every typed operation as a method that returns when it is done. Each raises `Refused` when
    the operation is not done.
    """

    def __init__(self, operations: TypedOperations, complete: Complete) -> None:
        self.operations = operations
        self.complete = complete

    capabilities = _blocking(TypedOperations.capabilities)
    create_session = _blocking(TypedOperations.create_session)
    open_session = _blocking(TypedOperations.open_session)
    get_session = _blocking(TypedOperations.get_session)
    list_sessions = _blocking(TypedOperations.list_sessions)
    resume_session = _blocking(TypedOperations.resume_session)
    fork_session = _blocking(TypedOperations.fork_session)
    close_session = _blocking(TypedOperations.close_session)
    delete_session = _blocking(TypedOperations.delete_session)
    list_tools = _blocking(TypedOperations.list_tools)
    get_tool = _blocking(TypedOperations.get_tool)
    call_tool = _blocking(TypedOperations.call_tool)
    cancel_call = _blocking(TypedOperations.cancel_call)
    send_prompt = _blocking(TypedOperations.send_prompt)
    resume_prompt = _blocking(TypedOperations.resume_prompt)
    cancel_prompt = _blocking(TypedOperations.cancel_prompt)
    list_approvals = _blocking(TypedOperations.list_approvals)
    get_approval = _blocking(TypedOperations.get_approval)
    approval_context = _blocking(TypedOperations.approval_context)
    inbox_state = _blocking(TypedOperations.inbox_state)
    decide = _blocking(TypedOperations.decide)
    list_questions = _blocking(TypedOperations.list_questions)
    answer_question = _blocking(TypedOperations.answer_question)
    list_grants = _blocking(TypedOperations.list_grants)
    get_grant = _blocking(TypedOperations.get_grant)
    preview_grant = _blocking(TypedOperations.preview_grant)
    revoke_grant = _blocking(TypedOperations.revoke_grant)
    artifact = _blocking(TypedOperations.artifact)
    list_calls = _blocking(TypedOperations.list_calls)
    sum_calls = _blocking(TypedOperations.sum_calls)
    list_catalog = _blocking(TypedOperations.list_catalog)
    get_catalog_tool = _blocking(TypedOperations.get_catalog_tool)
    explain_policy = _blocking(TypedOperations.explain_policy)
    get_policy = _blocking(TypedOperations.get_policy)
    check_policy = _blocking(TypedOperations.check_policy)
    preview_policy = _blocking(TypedOperations.preview_policy)
    list_servers = _blocking(TypedOperations.list_servers)
    list_events = _blocking(TypedOperations.list_events)
    list_records = _blocking(TypedOperations.list_records)

    def events(self, session_id: str, after: int = 0) -> BlockingEvents:
        """The events of a session after the record `after`, then those that happen."""
        return BlockingEvents(self.operations.events(session_id, after), self.complete)

    def watch_approvals(
        self, *, session_id: str | None = None, poll_seconds: float = 1.0
    ) -> Generator[ApprovalFacts]:
        """Yield every request that waits, and then each one that comes."""
        watched = self.operations.watch_approvals(session_id=session_id, poll_seconds=poll_seconds)
        return _each(watched, self.complete)


class BlockingEvents:
    """Iterates over the events of a session, and waits for each; see `SessionEvents`."""

    def __init__(self, events: SessionEvents, complete: Complete) -> None:
        self._events = events
        self._complete = complete

    @property
    def seq(self) -> int:
        """The number of the last recorded event that was yielded."""
        return self._events.seq

    def __enter__(self) -> BlockingEvents:
        self._complete(self._events.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop following the session."""
        self._complete(self._events.aclose())

    def __iter__(self) -> BlockingEvents:
        return self

    def __next__(self) -> Event:
        event = self._complete(_next(self._events))
        if event is None:
            raise StopIteration
        return event


async def _next(events: SessionEvents) -> Event | None:
    try:
        return await anext(events)
    except StopAsyncIteration:
        return None


def _each(items: AsyncGenerator[T], complete: Complete) -> Generator[T]:
    async def following() -> list[T]:
        async for item in items:
            return [item]
        return []

    try:
        while item := complete(following()):
            yield from item
    finally:
        complete(items.aclose())
