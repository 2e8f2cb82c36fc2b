"""The client of the Responses API: requests, replies and the SDK's connections.

A reply is read as plain JSON, streamed or not: the SDK's classes may be older than the reply.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.adapters.history import ExpiredContainers, ReplyItems
from toolcrib.adapters.items import (
    ModelMessage,
    ReasoningItem,
    mapping_of,
    mappings_of,
    maybe_int,
    maybe_text,
    plain,
    text_of,
)
from toolcrib.adapters.model_client import (
    FailedAttempt,
    ModelReply,
    OnRetry,
    QueuedReply,
    Retry,
    late,
    send_with_retries,
)
from toolcrib.adapters.openai.background import (
    BackgroundResponses,
    first_of,
    is_unfinished,
)
from toolcrib.adapters.openai.containers import containers_in, retold
from toolcrib.adapters.openai.request_errors import (
    asked_pause,
    error_text,
    is_container_gone,
    is_passing,
)
from toolcrib.adapters.openai.stream import Streamed
from toolcrib.adapters.openai.stream_watcher import StreamWatcher
from toolcrib.adapters.options import Usage
from toolcrib.errors import (
    ContainerGone,
    DeadlinePassed,
    PromptEvaluationError,
    ReplyBroken,
)

if TYPE_CHECKING:
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.history import Conversation
    from toolcrib.adapters.items import ReplyItem
    from toolcrib.adapters.openai.request import Requests
    from toolcrib.adapters.stream_announcer import StreamAnnouncer
    from toolcrib.adapters.tool_calls import ItemClassifier
    from toolcrib.ledger.prompt_events import ModelStatus


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sending:
    """How a request is sent: who watches its stream, until when, and who is told of retries."""

    watcher: StreamWatcher | None
    deadline: float | None
    on_retry: OnRetry | None


@dataclass(slots=True)
class ResponsesClient:
    """Sends the requests of one turn."""

    wire: ResponsesEndpoint
    requests: Requests
    prompt_name: str
    classifier: ItemClassifier
    background: BackgroundResponses

    async def request(
        self,
        conversation: Conversation,
        *,
        step: int,
        announcer: StreamAnnouncer | None,
        deadline: float | None,
        on_retry: OnRetry | None = None,
    ) -> ModelReply | QueuedReply:
        """Send the unsent items until there is a reply."""
        watcher = StreamWatcher(announcer) if announcer else None
        if conversation.queued_id is not None:
            body = await self.background.wait(
                conversation.queued_id,
                self.prompt_name,
                watcher=watcher,
                deadline=deadline,
            )
            reply = ResponsesReply(body, None)
        else:
            reply = await self._retold(conversation, Sending(watcher, deadline, on_retry))
        if is_unfinished(reply.body):
            return QueuedReply(text_of(reply.body, "id"), reply.request_id)
        if announcer:
            announcer.flush()
        body, content = reply.body, self._content(reply)
        return ModelReply(content, status_of(body, content.items), problem_in(body, content.items))

    async def cancel(self, response_id: str) -> bool:
        """Stop a response that the provider makes in the background."""
        return await self.background.cancel(response_id)

    async def _retold(self, conversation: Conversation, sending: Sending) -> ResponsesReply:
        """The reply to the next request, in which runs in containers that are gone are text."""
        if conversation.expired:
            conversation.unsent = retold(conversation.unsent, conversation.expired)
            conversation.expired.clear()
        try:
            return await self._send(conversation, sending)
        except ContainerGone as error:
            items = retold(conversation.unsent)
            if conversation.reused or items == conversation.unsent:
                # Other words do not help while the tools name a container that is gone.
                raise
            gone = tuple(dict.fromkeys(containers_in(conversation.unsent)))
            conversation.newly_expired = ExpiredContainers(gone, str(error))
            logger.warning("%s: a container is gone; runs in it are sent as text", self.prompt_name)
            conversation.unsent = items
            return await self._send(conversation, sending)

    async def _send(self, conversation: Conversation, sending: Sending) -> ResponsesReply:
        return await self.wire.ask(
            self.requests.body(conversation),
            prompt_name=self.prompt_name,
            watcher=sending.watcher,
            deadline=sending.deadline,
            on_retry=sending.on_retry,
            is_background=self.requests.is_background,
        )

    def _content(self, reply: ResponsesReply) -> ReplyItems:
        body = reply.body
        return ReplyItems(
            items=self.classifier.items(mappings_of(body, "output")),
            usage=usage_of(body),
            response_id=maybe_text(body, "id"),
            request_id=reply.request_id,
            model=maybe_text(body, "model"),
        )


def usage_of(body: dict[str, Any]) -> Usage:
    """The tokens of one response; what the provider does not tell counts as none."""
    usage = mapping_of(body, "usage")
    input_details = mapping_of(usage, "input_tokens_details")
    cached = maybe_int(input_details, "cached_tokens")
    reasoning = maybe_int(mapping_of(usage, "output_tokens_details"), "reasoning_tokens")
    return Usage(
        requests=1,
        input_tokens=maybe_int(usage, "input_tokens") or 0,
        output_tokens=maybe_int(usage, "output_tokens") or 0,
        cached_tokens=cached or 0,
        reasoning_tokens=reasoning or 0,
        cache_write_tokens=maybe_int(input_details, "cache_write_tokens") or 0,
    )


_AGAIN: Final = "; `resume` asks for it again"


def status_of(body: RawItem, items: Sequence[ReplyItem]) -> ModelStatus:
    """The status of a response, as the ledger keeps it."""
    match maybe_text(body, "status"):
        case "incomplete":
            reason = text_of(mapping_of(body, "incomplete_details"), "reason")
            return "refused" if reason == "content_filter" else "incomplete"
        case "failed" | "cancelled" | "queued" | "in_progress":
            return "failed"
        case _:
            pass
    if _is_empty(items):
        return "empty"
    return "completed" if refusal_of(items) is None else "refused"


def problem_in(body: RawItem, items: Sequence[ReplyItem]) -> str | None:
    """Why the turn cannot continue from a response; None when it can."""
    status = maybe_text(body, "status")
    match status:
        case "failed":
            error = mapping_of(body, "error")
            code, message = text_of(error, "code"), text_of(error, "message")
            reason = f"{code or 'no code'}: {message or 'it does not say why'}"
            return f"the provider failed: {reason}{_AGAIN}"
        case "incomplete":
            return _incomplete(text_of(mapping_of(body, "incomplete_details"), "reason"))
        case "cancelled" | "queued" | "in_progress":
            return f"the response is {status}, not complete{_AGAIN}"
        case _:
            pass
    if _is_empty(items):
        return f"the response is empty: the model gave neither an answer nor a call{_AGAIN}"
    refusal = refusal_of(items)
    return None if refusal is None else f"the model refused: {refusal}"


def _is_empty(items: Sequence[ReplyItem]) -> bool:
    return all(isinstance(item, ReasoningItem) for item in items)


def _incomplete(reason: str) -> str:
    match reason:
        case "content_filter":
            return (
                "the answer was filtered (content_filter); nothing of it can be used, so ask in "
                "other words"
            )
        case "max_output_tokens":
            return (
                "the answer was cut off (max_output_tokens); allow more output tokens in settings, "
                "or ask for less"
            )
        case _:
            return f"the answer is incomplete ({reason or 'the provider does not say why'}){_AGAIN}"


def refusal_of(items: Sequence[ReplyItem]) -> str | None:
    """The words in which the model refused; None when it did not."""
    for item in items:
        if isinstance(item, ModelMessage) and item.refusal is not None:
            return item.refusal
    return None


_OPTIONS: Final = {"max_retries": 0, "security": {"bearer_auth": True}}


@dataclass(frozen=True, slots=True)
class ResponsesReply:
    """The reply to one request."""

    body: dict[str, Any] = field(repr=False)
    """Not shown: the provider may repeat in it what it was sent."""
    request_id: str | None


@dataclass(slots=True)
class _Attempt:
    """The provider's id of the last attempt, kept also when that attempt fails."""

    request_id: str | None = None


@dataclass(slots=True)
class ResponsesEndpoint:
    """The endpoint `/responses`. `client` is an `AsyncOpenAI`. Its own retries are switched off,
    because retries must end with the prompt's deadline.
    """

    client: Any
    retry: Retry = field(default_factory=Retry)

    async def ask(
        self,
        body: bytes,
        *,
        prompt_name: str,
        watcher: StreamWatcher | None = None,
        deadline: float | None = None,
        on_retry: OnRetry | None = None,
        is_background: bool = False,
    ) -> ResponsesReply:
        """Send a request until it is answered. With a `watcher` it asks for a stream; of one in the
        background, only the beginning is read.
        """
        attempt = _Attempt()

        async def on_failure(error: Exception, number: int, pause: float) -> None:
            if on_retry is not None:
                request_id = attempt.request_id or getattr(error, "request_id", None)
                reason = error_text(error, self.client)
                await on_retry(FailedAttempt(number, reason, request_id, pause))

        try:
            reply = await send_with_retries(
                lambda: self._once(body, watcher, attempt, is_background),
                self.retry,
                deadline,
                is_passing=is_passing,
                requested_pause=asked_pause,
                on_failure=on_failure,
            )
        except DeadlinePassed as error:
            raise late(prompt_name, attempt.request_id) from error
        except Exception as error:
            raise self._explained(error, attempt, prompt_name) from error
        return ResponsesReply(reply, attempt.request_id)

    async def _once(
        self,
        body: bytes,
        watcher: StreamWatcher | None,
        attempt: _Attempt,
        is_background: bool,
    ) -> dict[str, Any]:
        from openai import AsyncStream, HttpxBinaryResponseContent

        attempt.request_id = None
        # Past `responses.create`, which would look at every item of the history again, and would
        # read the reply into classes that may be too old for it.
        post = partial(self.client.post, "/responses", content=body, options=_OPTIONS)
        if watcher is None:
            raw = await post(cast_to=HttpxBinaryResponseContent)
            attempt.request_id = raw.response.headers.get("x-request-id")
            return _read(raw.content)
        stream = await post(cast_to=object, stream=True, stream_cls=AsyncStream[object])
        attempt.request_id = stream.response.headers.get("x-request-id")
        async with stream:
            if is_background:
                # Its id comes first, and is recorded before anything is waited for.
                return await first_of(stream)
            watcher.begin_attempt()
            return await _collect(stream, watcher)

    def _explained(
        self, error: Exception, attempt: _Attempt, prompt_name: str
    ) -> PromptEvaluationError:
        """A provider's error as a `PromptEvaluationError`, with the id of the request."""
        request_id = attempt.request_id or getattr(error, "request_id", None)
        kind = ContainerGone if is_container_gone(error) else PromptEvaluationError
        return kind(
            f"the provider did not answer: {error_text(error, self.client)}",
            prompt_name=prompt_name,
            phase="request",
            request_id=request_id,
        )


def _read(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except ValueError:
        raise ReplyBroken("the reply is not whole JSON: it was cut off, or is no reply") from None
    if not isinstance(body, dict):
        raise ReplyBroken("the reply is JSON, but no response")
    return cast("dict[str, Any]", body)


async def _collect(stream: AsyncIterator[Any], watcher: StreamWatcher) -> dict[str, Any]:
    """Read a stream to its end."""
    streamed = Streamed()
    try:
        async for raw in stream:
            event = plain(raw)
            streamed.add(event)
            await watcher.add(event)
    except json.JSONDecodeError:
        raise ReplyBroken("an event of the stream is not whole JSON") from None
    return streamed.body()
