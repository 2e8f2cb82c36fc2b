"""The Chat Completions API without HTTP: completions on the engine of the Responses API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.embedded.access import PROCESS_ACCESS
from toolcrib.embedded.chat.completion import (
    ChunkWriter,
    CompletionHead,
    completion_of,
)
from toolcrib.embedded.chat.request import (
    ReadCompletionParameters,
    read_chat_request,
    response_body,
)
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.chat.repository import CompletionRepository
    from toolcrib.embedded.responses.service import ResponseService
    from toolcrib.embedded.responses.writer import ActiveResponse


@dataclass(frozen=True, slots=True)
class ActiveCompletion:
    """A completion whose response is being made. A stored one is stored before its end is sent."""

    head: CompletionHead
    sent: ReadCompletionParameters
    active: ActiveResponse
    access: ResourceAccess
    repository: CompletionRepository

    async def whole(self) -> dict[str, Any]:
        """The completion of the response, which has ended. Raises `ApiFault`."""
        completion = completion_of(self.head, self.active)
        if self.sent.request.store:
            await self.repository.add(completion, self.sent.messages, self.access)
        return completion

    async def chunks(self) -> AsyncIterator[dict[str, Any]]:
        """The chunks as the response grows. A failure is the last of them."""
        writer = ChunkWriter(self.head, has_usage=self.sent.request.has_usage)
        try:
            async for chunk in writer.chunks(self.active):
                yield chunk
            await self.whole()
            for chunk in writer.last(self.active):
                yield chunk
        except ApiFault as fault:
            yield fault.body


class ChatService:
    """Makes chat completions. `stored` are those that their requests wanted to be stored."""

    def __init__(self, responses: ResponseService, stored: CompletionRepository) -> None:
        self._responses = responses
        self.stored = stored

    async def create(
        self, body: object, access: ResourceAccess = PROCESS_ACCESS
    ) -> ActiveCompletion:
        """Start a completion of the principal. Raises `ApiFault`."""
        sent = read_chat_request(body)
        try:
            active = await self._responses.create(
                response_body(sent.request), access, sampling=sent.request.sampling
            )
        except ApiFault as fault:
            raise _renamed(fault) from None
        head = CompletionHead.of(active.writer.response)
        return ActiveCompletion(head, sent, active, access, self.stored)


def _renamed(fault: ApiFault) -> ApiFault:
    """The fault with the name that the parameter has in a chat request."""
    param = fault.param or ""
    for theirs, ours in (("input", "messages"), ("text.format", "response_format.json_schema")):
        if param.startswith(theirs):
            param = ours + param.removeprefix(theirs)
    return ApiFault(
        fault.status, fault.message, kind=fault.kind, code=fault.code, param=param or None
    )
