"""The connected editor: requests and notifications of the agent to its client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from acp.exceptions import RequestError
from acp.meta import CLIENT_METHODS
from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)
from pydantic import BaseModel

from toolcrib.errors import ClientGone, EditorFailed

if TYPE_CHECKING:
    from acp.connection import Connection

Update: TypeAlias = (
    UserMessageChunk | AgentMessageChunk | AgentThoughtChunk | ToolCallStart | ToolCallProgress
)
M = TypeVar("M", bound=BaseModel)


class Editor:
    """The client of one connection. Its methods raise `ClientGone` once it has disconnected, and
    `EditorFailed` with the client's message when a request fails.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def update(self, session_id: str, update: Update) -> None:
        """Send an update of a session."""
        params = {"sessionId": session_id, "update": as_wire(update)}
        await self.notify(CLIENT_METHODS["session_update"], params)

    async def permission(self, request: RequestPermissionRequest) -> RequestPermissionResponse:
        """Ask the person whether a call may run."""
        return await self.ask("session_request_permission", request, RequestPermissionResponse)

    async def ask(self, name: str, request: BaseModel, result_type: type[M]) -> M:
        """Call a method of the client, by its name in the SDK."""
        try:
            answer = await self._connection.send_request(CLIENT_METHODS[name], as_wire(request))
        except RequestError as error:
            raise EditorFailed(str(error)) from None
        except ConnectionError:
            raise ClientGone from None
        try:
            return result_type.model_validate({} if answer is None else answer)
        except ValueError:
            raise EditorFailed(
                f"the client's answer to {CLIENT_METHODS[name]} is invalid"
            ) from None

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        try:
            await self._connection.send_notification(method, dict(params))
        except ConnectionError:
            raise ClientGone from None


def as_wire(model: BaseModel) -> dict[str, Any]:
    """A model of the protocol as JSON, without unset fields."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
