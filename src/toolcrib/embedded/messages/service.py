"""The Messages API without HTTP: create a message, count the tokens of a request."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.embedded.access import PROCESS_ACCESS
from toolcrib.embedded.backend import BackendCall, BackendRequest, reads_images
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.messages.attachment import RequestAttachments
from toolcrib.embedded.messages.code_execution import CodeExecutionTool, MessageContainer
from toolcrib.embedded.messages.conversation import MessageConversation
from toolcrib.embedded.messages.loop import MessageLoop
from toolcrib.embedded.messages.mcp_server import McpServerTool, read_mcp_servers
from toolcrib.embedded.messages.request import read_message_request
from toolcrib.embedded.messages.tools import (
    SERVER_TYPE,
    MessageTools,
    read_choice,
    read_client_tools,
)
from toolcrib.embedded.messages.web import WebFetchTool, WebSearchTool
from toolcrib.embedded.messages.writer import ContentWriter
from toolcrib.embedded.responses.service import PER_IMAGE, TokenCounter, estimate
from toolcrib.embedded.tools.mcp import McpKind
from toolcrib.embedded.web.image import fetch_images
from toolcrib.errors import ApiFault, BackendFailed

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.egress import EgressPolicy
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.backend import BackendInput, BackendTool, ModelBackend
    from toolcrib.embedded.backend_names import BackendNames
    from toolcrib.embedded.containers.repository import ContainerRepository
    from toolcrib.embedded.file_repository import FileRepository
    from toolcrib.embedded.messages.request import MessageRequest
    from toolcrib.embedded.messages.server_tool import ServerTool
    from toolcrib.embedded.messages.tools import MessageToolChoice
    from toolcrib.embedded.search.reader import DocumentReader
    from toolcrib.embedded.web.source import WebSearchSource

logger = logging.getLogger(__name__)

KINDS: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
"""By the status of a fault: the type of the error. Any other status is an `api_error`."""

FAILED: Final = "The provider failed; see its log."
CANCELLED: Final = "The message was cancelled."


def error_of(fault: ApiFault) -> dict[str, str]:
    """A fault as the error of the Messages API."""
    return {"type": KINDS.get(fault.status, "api_error"), "message": fault.message}


@dataclass(frozen=True, slots=True)
class MessageResources:
    """What the messages of a provider use."""

    containers: ContainerRepository
    files: FileRepository
    reader: DocumentReader
    web: Sequence[WebSearchSource]
    egress: EgressPolicy
    clock: Clock


@dataclass(frozen=True, slots=True)
class ActiveMessage:
    """A message whose loop runs. `unknown` are parameters of its request without an effect."""

    writer: ContentWriter
    task: asyncio.Task[None]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    async def finished(self) -> dict[str, Any]:
        """The complete message. Raises `ApiFault`."""
        await asyncio.wait([self.task])
        if self.task.cancelled():
            raise ApiFault(500, CANCELLED)
        match self.task.exception():
            case None:
                return self.writer.message
            case ApiFault() as fault:
                raise fault
            case BackendFailed() as error:
                raise ApiFault(500, str(error))
            case error:
                raise error

    async def stop(self) -> None:
        """Cancel the loop and wait for its end."""
        self.task.cancel()
        await asyncio.wait([self.task])


class MessageService:
    """Creates messages. Nothing of them is stored but containers and their files."""

    def __init__(self, names: BackendNames, resources: MessageResources) -> None:
        self._names = names
        self._resources = resources
        self._active: set[asyncio.Task[None]] = set()

    async def create(self, body: object, access: ResourceAccess = PROCESS_ACCESS) -> ActiveMessage:
        """Start a message of the principal. Raises `ApiFault` before anything is answered."""
        read = read_message_request(body)
        request, chosen = read.request, self._names.find(read.request.model)
        backend = chosen.backend
        conversation = await self._conversation(request, backend, access)
        await fetch_images(conversation.history, self._resources.egress)
        container = MessageContainer(
            self._resources.containers, access, request.container_id, conversation.uploads
        )
        opened = await self._opened(request, conversation, container, access)
        writer = ContentWriter(request.model, _estimated(request, conversation.history))

        async def answer(tools: MessageTools) -> None:
            await MessageLoop(backend, request, writer, conversation, tools, container).run()

        task = asyncio.create_task(self._run(opened, answer, writer, access))
        self._active.add(task)
        task.add_done_callback(self._active.discard)
        warnings = () if chosen.warning is None else (chosen.warning,)
        return ActiveMessage(writer, task, read.unknown, warnings)

    async def count(self, body: object, access: ResourceAccess = PROCESS_ACCESS) -> int:
        """Count the input tokens of a request: with the backend's tokenizer, or an estimate.
        Raises `ApiFault`.
        """
        request = read_message_request(body, is_answered=False).request
        backend = self._names.find(request.model).backend
        read_client_tools(request.tools or [])
        conversation = await self._conversation(request, backend, access)
        if not isinstance(backend, TokenCounter):
            return _estimated(request, conversation.history)
        counted = BackendRequest(
            request.model,
            conversation.history,
            instructions=request.instructions,
            output=request.output,
        )
        return await backend.count(counted) + _estimated_tools(request)

    async def close(self) -> None:
        """Cancel all active messages."""
        tasks = list(self._active)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _conversation(
        self, request: MessageRequest, backend: ModelBackend, access: ResourceAccess
    ) -> MessageConversation:
        resources = self._resources
        attachments = RequestAttachments(
            resources.files,
            resources.reader,
            resources.egress,
            access,
            reads_images=reads_images(backend),
        )
        conversation = MessageConversation(attachments)
        await conversation.read(request.messages)
        return conversation

    async def _opened(
        self,
        request: MessageRequest,
        conversation: MessageConversation,
        container: MessageContainer,
        access: ResourceAccess,
    ) -> _RequestTools:
        """The tools of a request, before its MCP servers are connected. Raises `ApiFault`."""
        client, choice = read_client_tools(request.tools or []), read_choice(request)
        servers = read_mcp_servers(request)
        server: list[ServerTool] = []
        for at, config in enumerate(request.tools or []):
            if (kind := SERVER_TYPE.fullmatch(str(config.get("type")))) is not None:
                place = f"tools.{at}"
                server.append(self._server_tool(kind, config, place, conversation, container))
        if request.container_id is not None:
            await self._resources.containers.use(request.container_id, access)
        return _RequestTools(client, choice, server, servers)

    async def _run(
        self,
        opened: _RequestTools,
        answer: Callable[[MessageTools], Awaitable[None]],
        writer: ContentWriter,
        access: ResourceAccess,
    ) -> None:
        """Connect the MCP servers and answer; a stream learns of a failure by an event."""
        try:
            async with AsyncExitStack() as stack:
                server = list(opened.server)
                for config in opened.mcp_servers:
                    tool = await McpServerTool.open(McpKind(self._resources.egress), config, access)
                    stack.push_async_callback(tool.close)
                    server.append(tool)
                await answer(MessageTools(opened.client, server, opened.choice))
        except BaseException as error:
            writer.fail(_error(error))
            raise

    def _server_tool(
        self,
        kind: Any,
        config: Mapping[str, Any],
        at: str,
        conversation: MessageConversation,
        container: MessageContainer,
    ) -> ServerTool:
        name, version = kind[1], int(kind[2])
        if config.get("name") != name:
            raise invalid(f"{at}.name: it must be {name!r}.")
        resources = self._resources
        match name:
            case "web_search":
                return WebSearchTool(resources.web, config, at)
            case "web_fetch":
                return WebFetchTool(
                    resources.web,
                    config,
                    at,
                    context=conversation.context,
                    clock=resources.clock,
                )
            case _:
                return CodeExecutionTool(container, version)


@dataclass(frozen=True, slots=True)
class _RequestTools:
    """The tools of a request; `mcp_servers` are those still to connect to."""

    client: Sequence[BackendTool]
    choice: MessageToolChoice
    server: Sequence[ServerTool]
    mcp_servers: Sequence[Mapping[str, Any]]


def _error(error: BaseException) -> dict[str, str]:
    match error:
        case ApiFault():
            return error_of(error)
        case BackendFailed():
            return {"type": "api_error", "message": str(error)}
        case asyncio.CancelledError():
            return {"type": "api_error", "message": CANCELLED}
        case _:
            logger.error("a message failed", exc_info=error)
            return {"type": "api_error", "message": FAILED}


def _estimated(request: MessageRequest, history: Sequence[BackendInput]) -> int:
    """The estimate that `/v1/responses/input_tokens` gives."""
    texts = [request.instructions] if request.instructions else []
    images = 0
    for turn in history:
        match turn:
            case BackendCall():
                texts.append(turn.name + turn.arguments)
            case _:
                images += len(turn.images)
                texts.append(turn.text)
    return estimate(texts) + PER_IMAGE * images + _estimated_tools(request)


def _estimated_tools(request: MessageRequest) -> int:
    return estimate(json.dumps(tool, ensure_ascii=False) for tool in request.tools or [])
