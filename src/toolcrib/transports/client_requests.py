"""What a runtime asks of a connected client: to run the tools that it brought."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.errors import ClientFailed, ClientGone
from toolcrib.transports.jsonrpc import notification_frame, request_frame

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.service import Service
    from toolcrib.transports.jsonrpc import Response
    from toolcrib.transports.subscriptions import Outbox

CALL = "client.call"
"""The request to run one call; the result is the tool's value, an error its failure."""
CANCEL = "$/cancel"


class ClientRequests:
    """Requests of ours that a client has not answered yet."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._count = 0
        self._is_gone = False
        self._detaching: dict[str, Callable[[], None]] = {}

    def attach(self, session_id: str, service: Service, who: Principal) -> None:
        """Have this client, which is `who`, run the client-run calls of a session."""
        link = SessionLink(session_id, self)
        self._detaching[session_id] = service.attach(session_id, link, who)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask, and wait for the answer. Raises `ClientGone` or `ClientFailed`."""
        if self._is_gone:
            raise ClientGone
        self._count += 1
        request_id = f"s{self._count}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        self._outbox.put(request_frame(request_id, method, params))
        try:
            return await answer
        except asyncio.CancelledError:
            self._outbox.put(notification_frame(CANCEL, {"id": request_id}))
            raise
        finally:
            self._waiting.pop(request_id, None)

    def answered(self, response: Response) -> None:
        """Take an answer; one that nobody waits for is dropped."""
        key = response.id if isinstance(response.id, str) else ""
        answer = self._waiting.get(key)
        if answer is None or answer.done():
            return
        if response.error is None:
            answer.set_result(response.result)
        else:
            answer.set_exception(ClientFailed(response.error))

    def gone(self) -> None:
        """The client will answer no more: what waits for it fails."""
        self._is_gone = True
        for detach in self._detaching.values():
            detach()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ClientGone())


class SessionLink:
    """The way to the client for one session's calls."""

    def __init__(self, session_id: str, asked: ClientRequests) -> None:
        self._session_id = session_id
        self._requests = asked

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        params = {
            "session_id": self._session_id,
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
        }
        return await self._requests.ask(CALL, params)
