"""`PydanticAIClient`: sends the requests of a turn to a pydantic-ai model.

Also its parts: which errors are worth a retry, and the status of a reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.history import ReplyItems
from toolcrib.adapters.items import mapping_of, mappings_of, maybe_text, text_of
from toolcrib.adapters.model_client import (
    FailedAttempt,
    ModelReply,
    OnRetry,
    Retry,
    late,
    send_with_retries,
)
from toolcrib.adapters.options import Usage
from toolcrib.adapters.pydantic_ai.codecs.mcp import LISTING, McpCodec
from toolcrib.adapters.pydantic_ai.parts import ERROR, UNREAD, items_of, with_calls
from toolcrib.adapters.pydantic_ai.stream_watcher import PartWatcher
from toolcrib.errors import DeadlinePassed, PromptEvaluationError, ReplyBroken

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage

    from toolcrib.adapters.history import Conversation
    from toolcrib.adapters.pydantic_ai.messages import MessageHistory
    from toolcrib.adapters.pydantic_ai.request import RequestTemplate
    from toolcrib.adapters.stream_announcer import StreamAnnouncer
    from toolcrib.adapters.tool_calls import ItemClassifier
    from toolcrib.ledger.prompt_events import ModelStatus


_HTTP_LIBRARIES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "grpc"})
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
# By name, because older versions of pydantic-ai have fewer of them.
_FINAL: Final = frozenset(
    {"ContentFilterError", "ModelQuotaExceededError", "ModelRequestRejectedError"}
)
_REQUEST_IDS: Final = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id")


def is_passing(error: Exception) -> bool:
    """Whether the same request may succeed next time."""
    # Of the models of a fallback, one that recovers is enough.
    return any(_is_passing(member) for member in _members(error))


def requested_pause(error: Exception) -> float | None:
    """The seconds that the provider requests to wait; None when it requests none."""
    pauses = [getattr(member, "retry_after", None) for member in _members(error)]
    return max((pause for pause in pauses if isinstance(pause, int | float)), default=None)


def request_id_of(error: Exception) -> str | None:
    """The provider's id of the request that failed; None when it is not known."""
    for member in _members(error):
        headers: Any = getattr(member, "headers", None) or {}
        ids: list[Any] = [headers.get(name) for name in _REQUEST_IDS]
        ids.append(getattr(member.__cause__, "request_id", None))
        for request_id in ids:
            if isinstance(request_id, str) and request_id:
                return request_id
    return None


def error_text(error: Exception) -> str:
    """The messages of an error, and the pause that the provider requests."""
    text = "; ".join(dict.fromkeys(_message(member) for member in _members(error)))
    pause = requested_pause(error)
    return f"{text} It asks to wait {pause:g} seconds." if pause else text


def is_unsent(error: Exception) -> bool:
    """Whether pydantic-ai refused to make the request: nothing was sent."""
    from pydantic_ai.exceptions import UserError

    return isinstance(error, UserError | NotImplementedError)


def _message(error: Exception) -> str:
    from pydantic_ai.exceptions import AgentRunError

    if isinstance(error, ReplyBroken):
        return str(error)
    if is_unsent(error):
        return f"the model does not take this request: {error}"
    if isinstance(error, AgentRunError) or _is_of_http(error):
        return f"the provider did not answer: {str(error) or type(error).__name__}"
    # pydantic-ai maps every error that it foresees; this one it did not.
    return f"the request failed unexpectedly: {type(error).__name__}: {error}"


def _is_passing(error: Exception) -> bool:
    hint = getattr(error, "provider_retry_hint", None)
    if isinstance(hint, bool):
        return hint
    if _is_final(error):
        return False
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _PASSING_STATUSES or status >= 500
    # An error inside a stream has only a code; an unknown code would come again.
    if getattr(error, "provider_error_code", None) and type(error).__name__ == "ModelAPIError":
        return False
    return isinstance(error, ReplyBroken) or _is_lost(error)


def _is_final(error: Exception) -> bool:
    """Whether the provider, or pydantic-ai in its place, would refuse again."""
    return not _FINAL.isdisjoint(base.__name__ for base in type(error).__mro__)


def _is_lost(error: Exception) -> bool:
    """Whether there was no reply, or none that can be read. A connection that is lost in the middle
    of a stream may show as an error of the HTTP library.
    """
    from pydantic_ai import exceptions

    unread = (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior)
    return isinstance(error, unread) or _is_of_http(error)


def _is_of_http(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in _HTTP_LIBRARIES


def _members(error: Exception) -> Iterator[Exception]:
    """The errors of a group; of any other error, itself."""
    members: tuple[Exception, ...] | None = getattr(error, "exceptions", None)
    if members is None:
        yield error
        return
    for member in members:
        yield from _members(member)


_AGAIN: Final = "; `resume` asks for it again"
# Providers that always send a finish reason.
_WITH_REASON: Final = frozenset(
    {
        "anthropic",
        "azure",
        "bedrock",
        "google",
        "google-cloud",
        "groq",
        "mistral",
        "openai",
        "openrouter",
    }
)


def reply_status(response: ModelResponse, provider: str) -> tuple[ModelStatus, str | None]:
    """The status of a response, and why the turn cannot continue from it; None when it can.

    An unknown finish reason is no problem, except on the Responses API: it has one reason for
    success, and sends others only with an incomplete answer.
    """
    details = _details(response)
    sent = maybe_text(details, "finish_reason") or maybe_text(details, "block_reason")
    reason = sent or response.finish_reason
    match response.finish_reason:
        case "content_filter":
            return "refused", _refused(details, reason)
        case "length":
            return "incomplete", (
                f"the answer was cut off ({reason}); allow more output tokens in settings "
                "(max_tokens), or ask for less"
            )
        case "error":
            return "failed", _failed(mapping_of(details, ERROR), reason)
        case None if sent and provider == "openai-responses":
            return "incomplete", f"the answer is incomplete ({sent}){_AGAIN}"
        case _:
            pass
    if response.state == "suspended":
        return "paused", None
    if response.state != "complete":
        return "failed", f"the response is {response.state}, not complete{_AGAIN}"
    if all(_is_silent(part) for part in response.parts):
        return "empty", _empty(mappings_of(details, UNREAD))
    return "completed", None


def is_cut(response: ModelResponse) -> bool:
    """Whether a response broke off although its connection was closed in order: it has no finish
    reason, and its provider always sends one. pydantic-ai may have filled one in.
    """
    if response.finish_reason not in (None, "stop", "tool_call") or response.state == "suspended":
        return False
    details = _details(response)
    has_reason = bool(details.get("finish_reason") or details.get("refusal"))
    return not has_reason and (
        response.provider_name in _WITH_REASON or response.state == "incomplete"
    )


def _refused(details: dict[str, Any], reason: str | None) -> str:
    refusal = maybe_text(details, "refusal")
    if refusal:
        return f"the model refused: {refusal}"
    return f"the answer was filtered ({reason}) and cannot be used; ask in other words"


def _failed(error: dict[str, Any], reason: str | None) -> str:
    if not error:
        return f"the provider failed ({reason}) and gives no reason{_AGAIN}"
    code, message = text_of(error, "code"), text_of(error, "message")
    return f"the provider failed: {code or 'no code'}: {message or 'it does not say why'}{_AGAIN}"


def _empty(unread: list[dict[str, Any]]) -> str:
    kinds = ", ".join(dict.fromkeys(text_of(content, "type") for content in unread))
    if not kinds:
        return f"the response is empty: it has neither an answer nor a call{_AGAIN}"
    return (
        f"the response has no answer, only what this adapter cannot use ({kinds}); use the adapter "
        "of the provider itself, or leave out the tool"
    )


def _is_silent(part: ModelResponsePart) -> bool:
    """Whether a part is neither an answer nor a call; a call without arguments is one, and the list
    of a server's tools is none.
    """
    match part.part_kind:
        case "thinking":
            return True
        case "text":
            return not part.has_content()
        case "builtin-tool-call" | "builtin-tool-return":
            return part.tool_name.startswith(McpCodec.native) and _is_listing(part)
        case _:
            return False


def _is_listing(part: Any) -> bool:
    facts = {"told": getattr(part, "args", None) or getattr(part, "content", None)}
    told = mapping_of(facts, "told")
    return told.get("action") == LISTING or "tools" in told


def _details(response: ModelResponse) -> dict[str, Any]:
    return response.provider_details or {}


@dataclass(slots=True)
class PydanticAIClient:
    """The model client of one turn."""

    model: Model
    template: RequestTemplate
    messages: MessageHistory
    prompt_name: str
    provider: str
    """A column of the support matrix."""
    classifier: ItemClassifier
    retry: Retry = field(default_factory=Retry)

    async def request(
        self,
        conversation: Conversation,
        *,
        step: int,
        announcer: StreamAnnouncer | None,
        deadline: float | None,
        on_retry: OnRetry | None = None,
    ) -> ModelReply:
        """Send the unsent items until there is a reply."""
        messages = self.messages.extend(conversation.unsent)
        response = await self._send(messages, step, announcer, deadline, on_retry)
        raws = list(with_calls(items_of(response), self.messages.hosted_call_ids))
        items = self.classifier.items(raws)
        self.messages.keep(items[0], response)
        content = ReplyItems(
            items=items,
            usage=usage_of(response.usage),
            response_id=response.provider_response_id,
            # pydantic-ai does not give the request's id; a provider finds the response's id too.
            request_id=response.provider_response_id,
            model=response.model_name,
            is_paused=response.state == "suspended",
        )
        if announcer:
            announcer.flush()
        return ModelReply(content, *reply_status(response, self.provider))

    async def cancel(self, response_id: str) -> bool:
        """Nothing is answered in the background here."""
        return False

    async def _send(
        self,
        messages: list[ModelMessage],
        step: int,
        announcer: StreamAnnouncer | None,
        deadline: float | None,
        on_retry: OnRetry | None,
    ) -> ModelResponse:
        async def on_failure(error: Exception, number: int, pause: float) -> None:
            if on_retry is not None:
                reason, request_id = error_text(error), request_id_of(error)
                await on_retry(FailedAttempt(number, reason, request_id, pause))

        try:
            return await send_with_retries(
                lambda: self._once(messages, step, announcer),
                self.retry,
                deadline,
                is_passing=is_passing,
                requested_pause=requested_pause,
                on_failure=on_failure,
            )
        except DeadlinePassed as error:
            raise late(self.prompt_name) from error
        except Exception as error:
            raise self._unanswered(error) from error

    async def _once(
        self, messages: list[ModelMessage], step: int, announcer: StreamAnnouncer | None
    ) -> ModelResponse:
        response = await self._response(messages, step, announcer)
        if is_cut(response):
            raise ReplyBroken("the reply ended before the response was complete")
        return response

    async def _response(
        self, messages: list[ModelMessage], step: int, announcer: StreamAnnouncer | None
    ) -> ModelResponse:
        settings, parameters = self.template.settings_at(step), self.template.parameters
        if announcer is None:
            return await self.model.request(messages, settings, parameters)
        async with self.model.request_stream(messages, settings, parameters) as stream:
            watcher = PartWatcher(announcer, self.provider)
            async for event in stream:
                await watcher.add(event)
        # Only after the stream: a fallback model then knows which member continues.
        response = stream.get()
        watcher.finish(response)
        return response

    def _unanswered(self, error: Exception) -> PromptEvaluationError:
        phase = "render" if is_unsent(error) else "request"
        return self._failed(error_text(error), phase=phase, request_id=request_id_of(error))

    def _failed(self, message: str, **facts: Any) -> PromptEvaluationError:
        return PromptEvaluationError(message, prompt_name=self.prompt_name, **facts)


def usage_of(usage: RequestUsage) -> Usage:
    """The tokens of one response."""
    details = usage.details
    # pydantic-ai leaves the tokens of an advisor, which is another model, out of its counts.
    advised = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        further_input_tokens=sum(details.get(f"advisor_{name}", 0) for name in advised),
        further_output_tokens=details.get("advisor_output_tokens", 0),
    )
