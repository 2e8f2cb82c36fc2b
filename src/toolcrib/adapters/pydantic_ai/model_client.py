"""The way to a model of pydantic-ai: asked, retried, streamed or not, and read as items.

What goes wrong on the way to a model, and whether it is worth another try.

Whether a model's response is an answer, and if not, why.

Which events of a model's stream people want to see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.history import ReplyItems
from toolcrib.adapters.json_fields import maybe_text
from toolcrib.adapters.model_client import (
    ModelReply,
    Retry,
    late,
    send_with_retries,
)
from toolcrib.adapters.pydantic_ai.parts import items_of, with_calls
from toolcrib.adapters.response import Usage
from toolcrib.errors import DeadlinePassed, PromptEvaluationError, ReplyBroken

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage

    from toolcrib.adapters.history import Conversation
    from toolcrib.adapters.item_classifier import ItemClassifier
    from toolcrib.adapters.loop import StreamAnnouncer
    from toolcrib.adapters.pydantic_ai.messages import MessageHistory
    from toolcrib.adapters.pydantic_ai.request import Asking
    from toolcrib.ledger.events import ModelStatus


_HTTP_LIBRARIES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "grpc"})
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
# By name, because older versions of pydantic-ai have fewer of them.
_FINAL: Final = frozenset(
    {"ContentFilterError", "ModelQuotaExceededError", "ModelRequestRejectedError"}
)
_REQUEST_IDS: Final = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id")


def is_passing(error: Exception) -> bool:
    """Whether the same request may well be answered next time."""
    # Of models that take each other's place, one that recovers is enough.
    return any(_is_passing(each) for each in _each(error))


def asked_pause(error: Exception) -> float | None:
    """The seconds that the provider asks to wait; None when it does not say."""
    asked = [getattr(each, "retry_after", None) for each in _each(error)]
    return max((each for each in asked if isinstance(each, int | float)), default=None)


def request_id_of(error: Exception) -> str | None:
    """The provider's id of the request that failed; None when it is not told."""
    for each in _each(error):
        headers: Any = getattr(each, "headers", None) or {}
        ids: list[Any] = [headers.get(name) for name in _REQUEST_IDS]
        ids.append(getattr(each.__cause__, "request_id", None))
        for found in ids:
            if isinstance(found, str) and found:
                return found
    return None


def explained(error: Exception) -> str:
    """What went wrong, in the words of whoever noticed."""
    told = "; ".join(dict.fromkeys(_said(each) for each in _each(error)))
    asked = asked_pause(error)
    return f"{told} It asks to wait {asked:g} seconds." if asked else told


def is_unsent(error: Exception) -> bool:
    """Whether pydantic-ai refused to make the request: nothing was sent."""
    from pydantic_ai.exceptions import UserError

    return isinstance(error, UserError | NotImplementedError)


def _said(error: Exception) -> str:
    from pydantic_ai.exceptions import AgentRunError

    if isinstance(error, ReplyBroken):
        return str(error)
    if is_unsent(error):
        return f"the model cannot be asked this: {error}"
    if isinstance(error, AgentRunError) or _is_of_http(error):
        return f"the provider did not answer: {str(error) or type(error).__name__}"
    # Whatever this is, pydantic-ai did not foresee it.
    return (
        f"the request could not be made, or the reply not be read: {type(error).__name__}: {error}"
    )


def _is_passing(error: Exception) -> bool:
    hint = getattr(error, "provider_retry_hint", None)
    if isinstance(hint, bool):
        return hint
    if _is_final(error):
        return False
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _PASSING_STATUSES or status >= 500
    # Of what comes in a stream only the code says more; one that nobody knows would come again.
    if getattr(error, "provider_error_code", None) and type(error).__name__ == "ModelAPIError":
        return False
    return isinstance(error, ReplyBroken) or _is_lost(error)


def _is_final(error: Exception) -> bool:
    """Whether the provider, or pydantic-ai in its place, would say the same again."""
    return not _FINAL.isdisjoint(each.__name__ for each in type(error).__mro__)


def _is_lost(error: Exception) -> bool:
    """Whether there was no reply, or none that could be read. A line that is lost in the middle of
    a stream may come up as the HTTP library's own error.
    """
    from pydantic_ai import exceptions

    unread = (exceptions.ModelAPIError, exceptions.UnexpectedModelBehavior)
    return isinstance(error, unread) or _is_of_http(error)


def _is_of_http(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in _HTTP_LIBRARIES


def _each(error: Exception) -> Iterator[Exception]:
    """An error; of several together, every one."""
    members: tuple[Exception, ...] | None = getattr(error, "exceptions", None)
    if members is None:
        yield error
        return
    for each in members:
        yield from _each(each)


_AGAIN: Final = "; `resume` asks for it again"
# These always say why they stopped; others may leave it out.
_TELLING: Final = frozenset(
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


def found(response: ModelResponse, provider: str) -> tuple[ModelStatus, str | None]:
    """What a response came to, and why nothing can follow from it; None when something can.

    Elsewhere a reason that nobody knows may be any; the Responses API has one for success, and
    tells of every other only when the answer is not whole.
    """
    details = _details(response)
    told = maybe_text(details, "finish_reason") or maybe_text(details, "block_reason")
    reason = told or response.finish_reason
    match response.finish_reason:
        case "content_filter":
            return "refused", _refused(details, reason)
        case "length":
            return "incomplete", (
                f"the answer was cut off ({reason}); allow more output tokens in settings "
                "(max_tokens), or ask for less"
            )
        case "error":
            return "failed", f"the provider failed ({reason}), and does not say why{_AGAIN}"
        case None if told and provider == "openai-responses":
            return "incomplete", f"the answer is incomplete ({told}){_AGAIN}"
        case _:
            pass
    if response.state == "suspended":
        return "paused", None
    if response.state != "complete":
        return "failed", f"the response is {response.state}, not complete{_AGAIN}"
    if all(_is_silent(part) for part in response.parts):
        return "empty", (
            f"the response is empty: the model gave neither an answer nor a call{_AGAIN}"
        )
    return "completed", None


def is_cut(response: ModelResponse) -> bool:
    """Whether a response broke off although the line was closed in good order: it does not say why
    it stopped, and its provider always does. What is not told, pydantic-ai may fill in.
    """
    if response.finish_reason not in (None, "stop", "tool_call") or response.state == "suspended":
        return False
    details = _details(response)
    is_told = bool(details.get("finish_reason") or details.get("refusal"))
    return not is_told and (response.provider_name in _TELLING or response.state == "incomplete")


def _refused(details: dict[str, Any], reason: str | None) -> str:
    words = maybe_text(details, "refusal")
    if words:
        return f"the model refused: {words}"
    return f"the answer was filtered ({reason}); nothing of it can be used, so ask in other words"


def _is_silent(part: ModelResponsePart) -> bool:
    """Whether a part neither answers nor does anything. A call needs no arguments to be one."""
    return part.part_kind == "thinking" or (part.part_kind == "text" and not part.has_content())


def _details(response: ModelResponse) -> dict[str, Any]:
    return response.provider_details or {}


def announce(event: Any, announcer: StreamAnnouncer) -> None:
    """Put an event on the bus, or pass over it. The final response counts; these only show."""
    match event.event_kind:
        case "part_start":
            _announce_part(event.part, announcer)
        case "part_delta" if event.delta.part_delta_kind == "text" and event.delta.content_delta:
            announcer.text(event.delta.content_delta)
        case "part_end" if event.part.part_kind == "builtin-tool-call":
            announcer.progress(event.part.tool_call_id, event.part.tool_name, "completed")
        case _:
            pass


def _announce_part(part: Any, announcer: StreamAnnouncer) -> None:
    match part.part_kind:
        case "text" if part.content:
            announcer.text(part.content)
        case "tool-call" | "builtin-tool-call" | "builtin-tool-return":
            what = "result" if part.part_kind == "builtin-tool-return" else "added"
            announcer.progress(part.tool_call_id, part.tool_name, what)
        case _:
            pass


@dataclass(slots=True)
class PydanticAIClient:
    """The line of one turn."""

    model: Model
    asking: Asking
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
    ) -> ModelReply:
        """Send what is unsent until it is answered."""
        messages = self.messages.extend(conversation.unsent)
        response = await self._until_answered(messages, step, announcer, deadline)
        raws = list(with_calls(items_of(response), self.messages.hosted_call_ids))
        items = self.classifier.items(raws)
        self.messages.keep(items[0], response)
        content = ReplyItems(
            items=items,
            usage=_usage(response.usage),
            response_id=response.provider_response_id,
            # What the request is called is not told; the response's id finds it as well.
            request_id=response.provider_response_id,
            model=response.model_name,
            is_paused=response.state == "suspended",
        )
        if announcer:
            announcer.flush()
        return ModelReply(content, *found(response, self.provider))

    async def _until_answered(
        self,
        messages: list[ModelMessage],
        step: int,
        announcer: StreamAnnouncer | None,
        deadline: float | None,
    ) -> ModelResponse:
        try:
            return await send_with_retries(
                lambda: self._once(messages, step, announcer),
                self.retry,
                deadline,
                is_passing=is_passing,
                requested_pause=asked_pause,
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
        settings, parameters = self.asking.settings_at(step), self.asking.parameters
        if announcer is None:
            return await self.model.request(messages, settings, parameters)
        async with self.model.request_stream(messages, settings, parameters) as stream:
            async for event in stream:
                announce(event, announcer)
        # Only now: a model that falls back on others notes at the end which of them goes on.
        return stream.get()

    def _unanswered(self, error: Exception) -> PromptEvaluationError:
        phase = "render" if is_unsent(error) else "request"
        return self._failed(explained(error), phase=phase, request_id=request_id_of(error))

    def _failed(self, message: str, **facts: Any) -> PromptEvaluationError:
        return PromptEvaluationError(message, prompt_name=self.prompt_name, **facts)


def _usage(usage: RequestUsage) -> Usage:
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
    )
