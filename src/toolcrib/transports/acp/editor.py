"""What the agent asks of the client that it is connected to, and tells it."""

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
    """The client of one connection. Everything raises `ClientGone` once it has left, and
    `EditorFailed` with the client's words when it says no.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def update(self, session_id: str, update: Update) -> None:
        """Tell what happened in a session."""
        params = {"sessionId": session_id, "update": as_wire(update)}
        await self.notify(CLIENT_METHODS["session_update"], params)

    async def permission(self, asked: RequestPermissionRequest) -> RequestPermissionResponse:
        """Ask the person whether a call may run."""
        return await self.ask("session_request_permission", asked, RequestPermissionResponse)

    async def ask(self, name: str, asked: BaseModel, answered: type[M]) -> M:
        """Ask for one of the client's methods, by the name that the SDK has for it."""
        try:
            answer = await self._connection.send_request(CLIENT_METHODS[name], as_wire(asked))
        except RequestError as error:
            raise EditorFailed(str(error)) from None
        except ConnectionError:
            raise ClientGone from None
        try:
            return answered.model_validate({} if answer is None else answer)
        except ValueError:
            raise EditorFailed(f"the client's answer to {CLIENT_METHODS[name]} is wrong") from None

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell something that is not answered."""
        try:
            await self._connection.send_notification(method, dict(params))
        except ConnectionError:
            raise ClientGone from None


def as_wire(model: BaseModel) -> dict[str, Any]:
    """A model of the protocol as JSON, without what it leaves open."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
