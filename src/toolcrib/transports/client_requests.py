"""Requests that a runtime sends to a connected JSON-RPC client: to run its client tools."""

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
    """The requests to one client that it has not answered yet."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._count = 0
        self._is_disconnected = False
        self._detach_session: dict[str, Callable[[], None]] = {}

    async def attach(self, session_id: str, service: Service, who: Principal) -> None:
        """Have this client, authenticated as `who`, run the client tools of a session."""
        link = ClientToolLink(session_id, self)
        detach = await service.attach(session_id, link, who)
        if self._is_disconnected:
            detach()
            return
        self._detach_session[session_id] = detach

    async def send(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request and wait for the result. Raises `ClientGone` or `ClientFailed`."""
        if self._is_disconnected:
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

    def receive_response(self, response: Response) -> None:
        """Take a response; one without a waiting request is dropped."""
        key = response.id if isinstance(response.id, str) else ""
        answer = self._waiting.get(key)
        if answer is None or answer.done():
            return
        if response.error is None:
            answer.set_result(response.result)
        else:
            answer.set_exception(ClientFailed(response.error))

    def disconnect(self) -> None:
        """Fail the open requests: the client has disconnected."""
        self._is_disconnected = True
        for detach in self._detach_session.values():
            detach()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ClientGone())


class ClientToolLink:
    """Runs the client tools of one session over its connection."""

    def __init__(self, session_id: str, requests: ClientRequests) -> None:
        self._session_id = session_id
        self._requests = requests

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        params = {
            "session_id": self._session_id,
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
        }
        return await self._requests.send(CALL, params)
