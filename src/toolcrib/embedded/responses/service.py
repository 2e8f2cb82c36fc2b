"""The Responses API without HTTP: create, retrieve, cancel, delete, count input tokens.

A response is `queued` (background only) or `in_progress` until its loop ends, then `completed`,
`incomplete`, `failed` or `cancelled` for good. A stored response reaches its last state in the
repository before any client reads it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Protocol, assert_never, cast, runtime_checkable

from toolcrib.embedded.access import PROCESS_ACCESS
from toolcrib.embedded.backend import (
    BackendCall,
    BackendCallResult,
    BackendMessage,
    BackendRequest,
    has_logprobs,
    reads_images,
)
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.compaction import compacted, read_compaction_request
from toolcrib.embedded.responses.content import ContentResolver
from toolcrib.embedded.responses.conversation import HistoryCache, RequestHistory, read_history
from toolcrib.embedded.responses.loop import ResponseLoop
from toolcrib.embedded.responses.repository import missing_response
from toolcrib.embedded.responses.request import (
    Item,
    ResponseRequest,
    ignored_parameters,
    new_response,
    read_format,
    read_request,
    tool_resource,
    usage_resource,
)
from toolcrib.embedded.responses.writer import FINAL, ActiveResponse, EventLog, ResponseWriter
from toolcrib.embedded.tools.tool import RequestContext
from toolcrib.embedded.web.image import fetch_images
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.backend import BackendInput, ModelBackend
    from toolcrib.embedded.backend_names import BackendNames, ChosenBackend
    from toolcrib.embedded.responses.compaction import CompactionRequest
    from toolcrib.embedded.responses.content import ContentReader
    from toolcrib.embedded.responses.repository import ResponseRepository
    from toolcrib.embedded.responses.tools import HostedKinds


BYTES_PER_TOKEN: Final = 4
PER_TURN: Final = 4
PER_IMAGE: Final = 85


@runtime_checkable
class TokenCounter(Protocol):
    """A backend that counts tokens with its model's tokenizer."""

    async def count(self, request: BackendRequest) -> int:
        """The tokens of a request."""
        ...


async def count_tokens(
    backend: ModelBackend, request: ResponseRequest, turns: list[BackendInput]
) -> int:
    """Count the tokens of a request: the backend's own count, or an estimate.

    The estimate is one token for four bytes of text, four for each entry of the history and 85 for
    each image. The tools of the request are always estimated, from their JSON.
    """
    tools = estimate(json.dumps(tool, ensure_ascii=False) for tool in request.tools or [])
    if isinstance(backend, TokenCounter):
        output = read_format(request.text).output
        backend_request = BackendRequest(
            request.model, turns, instructions=request.instructions, output=output
        )
        return await backend.count(backend_request) + tools
    texts = [request.instructions] if request.instructions else []
    images = sum(len(turn.images) for turn in turns if not isinstance(turn, BackendCall))
    return estimate([*texts, *map(_text, turns)]) + PER_IMAGE * images + tools


def estimate(texts: Iterable[str]) -> int:
    """Estimate the tokens of texts."""
    return sum(-(-len(text.encode()) // BYTES_PER_TOKEN) + PER_TURN for text in texts)


def _text(turn: BackendInput) -> str:
    match turn:
        case BackendMessage() | BackendCallResult():
            return turn.text
        case BackendCall():
            return turn.name + turn.arguments
        case _:
            assert_never(turn)


logger = logging.getLogger(__name__)

STOPPED = "The provider stopped during this response; send the request again."
UNKEPT = "The response could not be stored; see the provider's log."


class ResponseService:
    """Creates responses and stores them."""

    def __init__(
        self,
        names: BackendNames,
        kinds: HostedKinds,
        repository: ResponseRepository,
        clock: Clock,
        content: ContentReader,
    ) -> None:
        self._names = names
        self._kinds = kinds
        self._repository = repository
        self._clock = clock
        self._content = content
        self._active: dict[str, ActiveResponse] = {}

    async def recover(self) -> None:
        """Mark the responses that a crash interrupted as failed, so that none is lost."""
        for response in await self._repository.unfinished():
            log = EventLog()
            writer = ResponseWriter(response, log)
            writer.begin()
            log.end(writer.end("failed", self._clock(), error=_error(STOPPED)))
            await self._repository.finish(response, {}, log.events)

    async def create(
        self,
        body: object,
        access: ResourceAccess = PROCESS_ACCESS,
        recent: HistoryCache | None = None,
        *,
        is_answered: bool = True,
    ) -> ActiveResponse:
        """Start a response of the principal. Raises `ApiFault` before anything is stored.

        Without `is_answered` the backend is not called: the next response continues the input.
        """
        request = read_request(body)
        chosen = self._names.find(request.model)
        backend = chosen.backend
        warnings = _warnings(ignored_parameters(body), chosen)
        _check_logprobs(request, backend)
        read_format(request.text)
        self._kinds.check(request)
        await self._kinds.check_resources(request, access)
        content = self._content_of(access, backend)
        history = await self._history(request, access, content, recent)
        response = new_response(request, self._clock(), backend.name, backend_metadata(backend))
        writer = ResponseWriter(response, EventLog())
        for warning in warnings:
            writer.warn(warning)
        if request.is_stored:
            await self._repository.begin(response, _request_of(body), history, access.owner)
        writer.begin()
        context = RequestContext(writer, access, tuple(history.conversation.items))
        work = self._answered(context, backend, request, history) if is_answered else _unasked()
        answer_task = asyncio.create_task(work)
        task = asyncio.create_task(self._finish(writer, request, answer_task))
        active = ActiveResponse(writer, history, answer_task, task, access.owner, warnings)
        self._active[response["id"]] = active
        return active

    async def compact(
        self, body: object, access: ResourceAccess = PROCESS_ACCESS
    ) -> dict[str, Any]:
        """Compact a conversation. Raises `ApiFault`."""
        request = read_compaction_request(body)
        self._names.find(request.model)
        history = await self._history(request, access, ContentResolver(self._content, access))
        return compacted(history, self._clock())

    async def count(self, body: object, access: ResourceAccess = PROCESS_ACCESS) -> int:
        """Count the input tokens of a request. Raises `ApiFault`."""
        sent = cast(dict[str, Any], body) if isinstance(body, dict) else {}
        request = read_request({"model": self._names.backends[0].name, **sent})
        backend = self._names.find(request.model).backend
        self._kinds.check(request)
        history = await self._history(request, access, self._content_of(access, backend))
        return await count_tokens(backend, request, history.conversation.history)

    async def retrieve(
        self, response_id: str, access: ResourceAccess = PROCESS_ACCESS
    ) -> dict[str, Any]:
        """A response as it is now. Raises `ApiFault`."""
        active = self._stored(response_id, access)
        if active is not None:
            return active.writer.response
        return await self._repository.body(response_id, access)

    async def follow(
        self, response_id: str, after: int, access: ResourceAccess = PROCESS_ACCESS
    ) -> AsyncIterator[dict[str, Any]]:
        """Stream the events of a response after a sequence number. Raises `ApiFault`."""
        active = self._stored(response_id, access)
        if active is not None:
            return active.writer.log.after(after)
        response = await self._repository.body(response_id, access)
        if not response["background"]:
            raise invalid("Only a background response can be streamed again.", "stream")
        return _each(await self._repository.events(response_id, after))

    async def cancel(
        self, response_id: str, access: ResourceAccess = PROCESS_ACCESS
    ) -> dict[str, Any]:
        """Cancel a background response, unless it has ended. Raises `ApiFault`."""
        response = await self.retrieve(response_id, access)
        if not response["background"]:
            raise invalid("Only a background response can be cancelled.", "response_id")
        active = self._active.get(response_id)
        if active is None:
            return response
        await active.stop()
        return active.writer.response

    async def delete(
        self, response_id: str, access: ResourceAccess = PROCESS_ACCESS
    ) -> dict[str, Any]:
        """Delete a response. Raises `ApiFault`."""
        active = self._stored(response_id, access)
        if active is not None:
            await active.stop()
        await self._repository.delete(response_id, access)
        return {"id": response_id, "object": "response", "deleted": True}

    async def input_items(
        self, response_id: str, access: ResourceAccess = PROCESS_ACCESS
    ) -> list[Item]:
        """The input items of a response. Raises `ApiFault`."""
        return await self._repository.input_items(response_id, access)

    async def close(self) -> None:
        """Cancel all active responses and wait until they are stored."""
        await asyncio.gather(*(active.stop() for active in list(self._active.values())))

    def _stored(self, response_id: str, access: ResourceAccess) -> ActiveResponse | None:
        """An active response that is stored; clients cannot retrieve any other. Raises `ApiFault`
        for one that the principal may not see.
        """
        active = self._active.get(response_id)
        if active is None or not active.writer.response["store"]:
            return None
        access.check(active.owner, missing_response(response_id))
        return active

    async def _history(
        self,
        request: ResponseRequest | CompactionRequest,
        access: ResourceAccess,
        content: ContentResolver,
        recent: HistoryCache | None = None,
    ) -> RequestHistory:
        return await read_history(
            self._repository, request.items, request.previous_response_id, access, content, recent
        )

    def _content_of(self, access: ResourceAccess, backend: ModelBackend) -> ContentResolver:
        return ContentResolver(self._content, access, reads_images=reads_images(backend))

    async def _finish(
        self,
        writer: ResponseWriter,
        request: ResponseRequest,
        answer_task: asyncio.Task[tuple[str, dict[str, Any]]],
    ) -> None:
        status, changes = await _outcome(writer, answer_task)
        last = writer.end(status, self._clock(), **changes)
        try:
            if request.is_stored:
                events = [*writer.log.events, *last] if request.background else []
                await self._repository.finish(writer.response, writer.answers, events)
        except Exception:
            logger.exception("response %s could not be stored", writer.response["id"])
            last = writer.end("failed", self._clock(), error=_error(UNKEPT))
        finally:
            self._active.pop(writer.response["id"], None)
            writer.log.end(last)

    async def _answered(
        self,
        context: RequestContext,
        backend: ModelBackend,
        request: ResponseRequest,
        history: RequestHistory,
    ) -> tuple[str, dict[str, Any]]:
        turns = history.conversation.history
        if any(turn.images for turn in turns if not isinstance(turn, BackendCall)):
            await fetch_images(turns, self._content.egress)
        async with AsyncExitStack() as stack:
            tools = await self._kinds.open(request, context, stack)
            return await ResponseLoop(
                backend, request, context.writer, history.conversation, tools, history.sources
            ).run()


async def _unasked() -> tuple[str, dict[str, Any]]:
    return "completed", {"usage": usage_resource(0, 0)}


async def _outcome(
    writer: ResponseWriter, answer_task: asyncio.Task[tuple[str, dict[str, Any]]]
) -> tuple[str, dict[str, Any]]:
    """The outcome of an answer task: the status of the response and its changed fields."""
    await asyncio.wait([answer_task])
    if answer_task.cancelled():
        return "cancelled", {}
    match answer_task.exception():
        case None:
            return answer_task.result()
        case ApiFault() as fault:
            return "failed", {"error": _error(fault.message)}
        case error:
            logger.error("response %s failed", writer.response["id"], exc_info=error)
            return "failed", {"error": _error("The provider failed; see its log.")}


def _check_logprobs(request: ResponseRequest, backend: ModelBackend) -> None:
    if request.logprob_count is not None and not has_logprobs(backend):
        message = f"The model '{backend.name}' reports no token probabilities here: leave out "
        raise invalid(
            message + "'top_logprobs' and the include 'message.output_text.logprobs'.",
            "top_logprobs" if request.top_logprobs else "include",
            "unsupported_value",
        )


def _warnings(ignored: Sequence[str], chosen: ChosenBackend) -> tuple[str, ...]:
    """What the client should know about its request, also written to the log."""
    warnings = [] if chosen.warning is None else [chosen.warning]
    if ignored:
        warnings.append(f"ignored parameters: {', '.join(ignored)}")
    for warning in warnings:
        logger.warning("a request for a response: %s", warning)
    return tuple(warnings)


def backend_metadata(backend: ModelBackend) -> dict[str, str]:
    """The metadata that marks the responses of a scripted backend."""
    return {"toolcrib_backend": "scripted"} if backend.is_scripted else {}


def is_over(response: Mapping[str, Any]) -> bool:
    """Whether a response has reached its last state."""
    return response["status"] in FINAL


def _error(message: str) -> dict[str, str]:
    return {"code": "server_error", "message": message}


def _request_of(body: object) -> Mapping[str, Any]:
    """The request as it is stored, without the secrets of its tools."""
    request = cast(dict[str, Any], body)
    tools = cast(list[dict[str, Any]], request.get("tools") or [])
    return {**request, "tools": [tool_resource(tool) for tool in tools]}


async def _each(events: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    for event in events:
        yield event
