"""Tools that run in the front end: a call waits here between the response that shows it and the
request that brings its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import ClientFailed
from toolcrib.ledger.events import CallStarted, ToolInvoked
from toolcrib.runtime.client_tools import SOURCE

if TYPE_CHECKING:
    from toolcrib.ledger.events import Event
    from toolcrib.runtime.messages import ClientTool
    from toolcrib.transports.http.frontends.chat_request import ChatToolResult

CLIENT_CALL_SECONDS: Final = 300.0
"""How long a call waits for the front end; it may have been closed."""


def with_deadline(tool: ClientTool) -> ClientTool:
    """A tool of the front end whose calls do not wait for ever."""
    timeout = min(tool.timeout or CLIENT_CALL_SECONDS, CLIENT_CALL_SECONDS)
    return replace(tool, timeout=timeout)


class FrontendCalls:
    """The calls of one turn that the front end runs. A `ClientLink`. `results` are those that the
    front end has brought for calls which wait at another replica, and are taken over from it.
    """

    def __init__(self, results: Iterable[ChatToolResult] = ()) -> None:
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._brought = {result.call_id: result for result in results}
        self.changed = asyncio.Event()
        """Set when a call has begun to wait."""

    @property
    def waiting(self) -> frozenset[str]:
        """The ids of the calls that wait for the front end."""
        return frozenset(self._waiting)

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Wait for the result of a call. Raises `ClientFailed` when the front end reports one."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = answer
        if (brought := self._brought.pop(call_id, None)) is not None:
            self.bring([brought])
        else:
            self.changed.set()
        try:
            return await answer
        finally:
            self._waiting.pop(call_id, None)

    def bring(self, results: Iterable[ChatToolResult]) -> None:
        """Take results; those of calls that do not wait are dropped."""
        for result in results:
            answer = self._waiting.pop(result.call_id, None)
            if answer is None or answer.done():
                continue
            if result.error is None:
                answer.set_result(result.output)
            else:
                answer.set_exception(ClientFailed(result.error))


class CallsElsewhere(FrontendCalls):
    """The calls of one turn that wait for the front end at another replica, by the events of the
    turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self._begun: set[str] = set()

    @property
    def waiting(self) -> frozenset[str]:
        """The ids of the calls that have begun and not ended, as far as the events were read."""
        return frozenset(self._begun)

    def read(self, event: Event) -> None:
        """Read the next event of the session."""
        match event:
            case CallStarted(call_id=call_id, tool=tool) if tool.source == SOURCE:
                self._begun.add(call_id)
            case ToolInvoked(call_id=call_id):
                self._begun.discard(call_id)
            case _:
                pass
