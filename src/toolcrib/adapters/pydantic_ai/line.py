"""The way to a model of pydantic-ai: asked, retried, streamed or not, and read as items."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.conversation import Heard
from toolcrib.adapters.line import Answered
from toolcrib.adapters.pydantic_ai.parts import items_of
from toolcrib.adapters.response import Usage
from toolcrib.adapters.retry import Retry
from toolcrib.errors import PromptEvaluationError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage

    from toolcrib.adapters.announcing import Announcer
    from toolcrib.adapters.conversation import Conversation
    from toolcrib.adapters.pydantic_ai.messages import Messages
    from toolcrib.adapters.pydantic_ai.request import Asking
    from toolcrib.session.events import ModelStatus

_HTTP_LIBRARIES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "grpc"})
_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})


@dataclass(slots=True)
class ModelLine:
    """The line of one turn."""

    model: Model
    asking: Asking
    messages: Messages
    prompt_name: str
    retry: Retry = field(default_factory=Retry)

    async def ask(
        self,
        conversation: Conversation,
        *,
        step: int,
        announcer: Announcer | None,
        deadline: float | None,
    ) -> Answered:
        """Send what is unsent until it is answered."""
        messages = self.messages.told(conversation.unsent)
        response = await self._until_answered(messages, step, announcer, deadline)
        items = items_of(response)
        self.messages.keep(items[0], response)
        heard = Heard(
            items=items,
            usage=_usage(response.usage),
            response_id=response.provider_response_id,
            model=response.model_name,
            is_paused=response.state == "suspended",
        )
        if announcer:
            announcer.flush()
        return Answered(heard, *_found(response))

    async def _until_answered(
        self,
        messages: list[ModelMessage],
        step: int,
        announcer: Announcer | None,
        deadline: float | None,
    ) -> ModelResponse:
        number = 0
        while True:
            number += 1
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._once(messages, step, announcer)
            except Exception as error:
                pause = self._pause(error, number, deadline)
                if pause is None:
                    raise self._explained(error) from error
            await asyncio.sleep(pause)

    async def _once(
        self, messages: list[ModelMessage], step: int, announcer: Announcer | None
    ) -> ModelResponse:
        settings, parameters = self.asking.settings_at(step), self.asking.parameters
        if announcer is None:
            return await self.model.request(messages, settings, parameters)
        async with self.model.request_stream(messages, settings, parameters) as stream:
            async for event in stream:
                _announce(event, announcer)
            return stream.get()

    def _pause(self, error: Exception, attempt: int, deadline: float | None) -> float | None:
        """How long to wait before trying again; None when there is no point."""
        if attempt >= self.retry.attempts or not is_passing(error):
            return None
        pause = self.retry.pause(attempt, getattr(error, "retry_after", None))
        if pause is None or deadline is None:
            return pause
        return pause if asyncio.get_running_loop().time() + pause < deadline else None

    def _explained(self, error: Exception) -> PromptEvaluationError:
        if isinstance(error, PromptEvaluationError):
            return error
        if isinstance(error, TimeoutError):
            return self._failed(
                "the deadline passed before the provider answered; allow more seconds in the "
                "prompt's Budget",
                phase="budget",
            )
        cause = error.__cause__
        request_id = getattr(cause, "request_id", None)
        return self._failed(
            f"the provider did not answer: {_said(error)}",
            phase="request",
            request_id=request_id if isinstance(request_id, str) else None,
        )

    def _failed(self, message: str, **facts: Any) -> PromptEvaluationError:
        return PromptEvaluationError(message, prompt_name=self.prompt_name, **facts)


def is_passing(error: Exception) -> bool:
    """Whether the same request may well be answered next time."""
    from pydantic_ai import exceptions

    if isinstance(error, exceptions.ModelQuotaExceededError | exceptions.ModelRequestRejectedError):
        return False
    passing = (
        exceptions.ModelRateLimitError,
        exceptions.ModelUnavailableError,
        exceptions.ModelServerError,
        exceptions.ModelConnectionError,
    )
    if isinstance(error, passing):
        return True
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _PASSING_STATUSES or status >= 500
    # A line that is lost in the middle of a stream may come up as the HTTP library's own error.
    return type(error).__module__.partition(".")[0] in _HTTP_LIBRARIES


def _said(error: Exception) -> str:
    text = str(error) or type(error).__name__
    asked = getattr(error, "retry_after", None)
    return f"{text} It asks to wait {asked:g} seconds." if asked else text


def _found(response: ModelResponse) -> tuple[ModelStatus, str | None]:
    """What a response came to, and why nothing can follow from it."""
    again = "; `resume` asks for it again"
    match response.finish_reason:
        case "content_filter":
            return "refused", (
                "the answer was filtered (content_filter); nothing of it can be used, so ask in "
                "other words"
            )
        case "length":
            return "incomplete", (
                "the answer was cut off (length); allow more output tokens in settings "
                "(max_tokens), or ask for less"
            )
        case "error":
            return "failed", f"the provider failed, and does not say why{again}"
        case _:
            pass
    if response.state == "suspended":
        return "paused", None
    if response.state != "complete":
        return "failed", f"the response is {response.state}, not complete{again}"
    if all(part.part_kind == "thinking" or not part.has_content() for part in response.parts):
        return "empty", f"the response is empty: no answer and no call{again}"
    return "completed", None


def _usage(usage: RequestUsage) -> Usage:
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cache_read_tokens,
        reasoning_tokens=_whole(usage.details.get("reasoning_tokens")),
    )


def _whole(count: Any) -> int:
    return count if isinstance(count, int) else 0


def _announce(event: Any, announcer: Announcer) -> None:
    """Put on the bus what people want to see; the final response counts, these only show."""
    match event.event_kind:
        case "part_start":
            _announce_part(event.part, announcer, "added")
        case "part_delta" if event.delta.part_delta_kind == "text" and event.delta.content_delta:
            announcer.text(event.delta.content_delta)
        case "part_end" if event.part.part_kind == "builtin-tool-call":
            announcer.progress(event.part.tool_call_id, event.part.tool_name, "completed")
        case _:
            pass


def _announce_part(part: Any, announcer: Announcer, what: str) -> None:
    match part.part_kind:
        case "text" if part.content:
            announcer.text(part.content)
        case "tool-call" | "builtin-tool-call" | "builtin-tool-return":
            kind = "result" if part.part_kind == "builtin-tool-return" else what
            announcer.progress(part.tool_call_id, part.tool_name, kind)
        case _:
            pass
