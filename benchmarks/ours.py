"""Our side: the public API as a reader of the README would use it, nothing switched off."""

from collections.abc import Awaitable, Callable
from typing import Any

from harness import Call, Variant
from workload import search

from toolcrib import Executor, Hooks, Session, tool

NAME = "search"


class _Counter:
    """An executor with one tool; each batch gets a new session, so that no ledger grows forever."""

    def __init__(self, function: Callable[..., Awaitable[Any]], hooks: Hooks | None = None) -> None:
        self._tool = tool(name=NAME)(function)
        self._hooks = hooks
        self.start_session()

    def start_session(self) -> None:
        session = Session()
        if self._hooks is None:
            self.executor = Executor(session, tools=[self._tool])
        else:
            self.executor = Executor(session, tools=[self._tool], hooks=self._hooks)

    async def call(self, payload: bytes) -> str:
        return (await self.executor.call(NAME, payload)).text


async def _pre(ctx: Any, tool_name: str, args: Any) -> Any:
    return args


async def _post(ctx: Any, tool_name: str, result: Any) -> Any:
    return result


def dispatch() -> Variant:
    """All ten stages with an in-memory ledger."""
    counter = _Counter(search)
    return Variant("toolcrib", "Executor.call", counter.call, fresh=counter.start_session)


def hooked() -> Variant:
    """The same with one global hook before and one after."""
    counter = _Counter(search, Hooks(global_pre=_pre, global_post=_post))
    return Variant("toolcrib", "Executor.call + Hooks", counter.call, fresh=counter.start_session)


def call_of(function: Callable[..., Awaitable[Any]]) -> Call:
    """Calls of any function in one session; the concurrency section brings a slow one."""
    return _Counter(function).call
