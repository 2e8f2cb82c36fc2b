"""Our side: the public API as a reader of the README would use it, nothing switched off."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Call, Variant
from workload import search

from toolcrib import Executor, Hooks, Session, tool

if TYPE_CHECKING:
    from toolcrib.store.sqlite_schema import Synchronous

NAME = "search"
SESSION = "bench"


class _Counter:
    """An executor with one tool; each batch gets a new session, so that no ledger grows forever."""

    def __init__(self, function: Callable[..., Awaitable[Any]], hooks: Hooks | None = None) -> None:
        self._tool = tool(name=NAME)(function)
        self._hooks = hooks
        self.start_session()

    def start_session(self) -> None:
        self.session = Session()
        self._executor = Executor(self.session, tools=[self._tool], hooks=self._hooks)

    async def call(self, payload: bytes) -> str:
        return (await self._executor.call(NAME, payload)).text

    def read_ledger(self) -> None:
        """Make every record of the batch exist: built, digested and chained."""
        if self.session.head() is None:
            raise SystemExit("the ledger is empty; nothing was recorded")


async def _pre(ctx: Any, tool_name: str, args: dict[str, Any]) -> dict[str, Any]:
    return args


async def _post(ctx: Any, tool_name: str, result: Any) -> Any:
    return result


def _pair(path: str, hooks: Hooks | None = None) -> list[Variant]:
    # A memory ledger builds its records when they are first read. A call that nobody reads about
    # is cheaper, but the records are the point, so the variant that reads them is measured too.
    unread, read = _Counter(search, hooks), _Counter(search, hooks)
    return [
        Variant("toolcrib", path, unread.call, fresh=unread.start_session),
        Variant(
            "toolcrib",
            f"{path}, ledger read",
            read.call,
            fresh=read.start_session,
            settle=read.read_ledger,
        ),
    ]


def dispatch() -> list[Variant]:
    """All ten stages with an in-memory ledger, left alone and read."""
    return _pair("Executor.call")


def hooked() -> list[Variant]:
    """The same with one global hook before and one after."""
    return _pair("Executor.call + Hooks", Hooks(global_pre=_pre, global_post=_post))


def call_of(function: Callable[..., Awaitable[Any]]) -> tuple[Call, Callable[[], None]]:
    """Calls of any function in one session, and what reads its ledger afterwards."""
    counter = _Counter(function)
    return counter.call, counter.read_ledger


def register(functions: list[Callable[..., Awaitable[Any]]]) -> int:
    """Declare the functions as tools, register them, and render their schemas; how many."""
    return len(declare(functions)())


def declare(functions: list[Callable[..., Awaitable[Any]]]) -> Callable[[], tuple[Any, ...]]:
    """What gives the declarations of these functions as tools."""
    return Executor(Session(), tools=[tool(function) for function in functions]).declarations


async def durable_call(path: Path, synchronous: "Synchronous") -> Call:
    """Calls on a SQLite ledger; each returns its call id once its record is durable."""
    from toolcrib.store.sqlite import SqliteStore

    session = await Session.open(SqliteStore(path, synchronous=synchronous), session_id=SESSION)
    executor = Executor(session, tools=[tool(search)])

    async def call(payload: bytes) -> str:
        outcome = await executor.call(NAME, payload)
        if not outcome.ok:
            raise SystemExit(f"the call failed: {outcome.text}")
        return outcome.call_id

    return call


async def finished_calls(path: Path) -> set[str]:
    """The calls whose start and end are both in the ledger of a process that died.

    Opening the session verifies nothing by itself, so the whole chain is checked as well.
    """
    from toolcrib.ledger.record import verify
    from toolcrib.store.sqlite import SqliteStore

    store = SqliteStore(path)
    records = list(store.records(SESSION))
    verify(records)
    store.close()
    started = {record.call_id for record in records if record.kind == "call.started"}
    ended = {record.call_id for record in records if record.kind == "tool.invoked"}
    return {call_id for call_id in started & ended if call_id is not None}
