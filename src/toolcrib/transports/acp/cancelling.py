"""`$/cancel_request`, which names a request, as the cancel of a session, which the agent knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from acp.meta import AGENT_METHODS

from toolcrib.transports.acp.payload import object_in, text_in
from toolcrib.transports.jsonrpc import is_request_id

if TYPE_CHECKING:
    from toolcrib.transports.acp.lines import LineTransport

CANCEL_REQUEST: Final = "$/cancel_request"


class CancellingTransport:
    """Lines whose prompts can be cancelled by the id of their request. Other requests are left to
    end by themselves, as the protocol allows.
    """

    def __init__(self, lines: LineTransport) -> None:
        self._lines = lines
        self._prompts: dict[Any, str] = {}

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when no more will come."""
        message = await self._lines.receive()
        if message is None:
            return None
        match message.get("method"):
            case "session/prompt" if "id" in message:
                self._prompts[message["id"]] = text_in(object_in(message, "params"), "sessionId")
            case "$/cancel_request":
                return self._cancel(object_in(message, "params"))
            case _:
                pass
        return message

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message; with the answer to a prompt there is nothing left to cancel."""
        if "method" not in message:
            self._prompts.pop(message.get("id"), None)
        await self._lines.send(message)

    async def close(self) -> None:
        """Take no more to send."""
        await self._lines.close()

    def _cancel(self, params: Mapping[str, Any]) -> dict[str, Any]:
        named = params.get("requestId")
        session_id = self._prompts.get(named) if is_request_id(named) else None
        if session_id is None:
            return {"method": CANCEL_REQUEST, "params": {}}
        return {"method": AGENT_METHODS["session_cancel"], "params": {"sessionId": session_id}}
