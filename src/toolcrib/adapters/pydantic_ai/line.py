"""The way to a model of pydantic-ai: asked, retried, streamed or not, and read as items."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.conversation import Heard
from toolcrib.adapters.line import Answered
from toolcrib.adapters.pydantic_ai.faults import (
    ReplyBroken,
    asked_pause,
    explained,
    is_passing,
    is_unsent,
    request_id_of,
)
from toolcrib.adapters.pydantic_ai.finding import found, is_cut
from toolcrib.adapters.pydantic_ai.parts import items_of, with_calls
from toolcrib.adapters.pydantic_ai.watching import announce
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


@dataclass(slots=True)
class ModelLine:
    """The line of one turn."""

    model: Model
    asking: Asking
    messages: Messages
    prompt_name: str
    provider: str
    """A column of the support matrix."""
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
        items = list(with_calls(items_of(response), self.messages.called))
        self.messages.keep(items[0], response)
        heard = Heard(
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
        return Answered(heard, *found(response, self.provider))

    async def _until_answered(
        self,
        messages: list[ModelMessage],
        step: int,
        announcer: Announcer | None,
        deadline: float | None,
    ) -> ModelResponse:
        number = 0
        while True:
            if deadline is not None and asyncio.get_running_loop().time() >= deadline:
                raise self._late()
            number += 1
            limit = asyncio.timeout_at(deadline)
            try:
                async with limit:
                    return await self._once(messages, step, announcer)
            except Exception as error:
                if limit.expired():
                    raise self._late() from error
                pause = self._pause(error, number, deadline)
                if pause is None:
                    raise self._unanswered(error) from error
            await asyncio.sleep(pause)

    async def _once(
        self, messages: list[ModelMessage], step: int, announcer: Announcer | None
    ) -> ModelResponse:
        response = await self._response(messages, step, announcer)
        if is_cut(response):
            raise ReplyBroken("the reply ended before the response was complete")
        return response

    async def _response(
        self, messages: list[ModelMessage], step: int, announcer: Announcer | None
    ) -> ModelResponse:
        settings, parameters = self.asking.settings_at(step), self.asking.parameters
        if announcer is None:
            return await self.model.request(messages, settings, parameters)
        async with self.model.request_stream(messages, settings, parameters) as stream:
            async for event in stream:
                announce(event, announcer)
        # Only now: a model that falls back on others notes at the end which of them goes on.
        return stream.get()

    def _pause(self, error: Exception, attempt: int, deadline: float | None) -> float | None:
        """How long to wait before trying again; None when there is no point."""
        if attempt >= self.retry.attempts or not is_passing(error):
            return None
        pause = self.retry.pause(attempt, asked_pause(error))
        if pause is None or deadline is None:
            return pause
        return pause if asyncio.get_running_loop().time() + pause < deadline else None

    def _unanswered(self, error: Exception) -> PromptEvaluationError:
        phase = "render" if is_unsent(error) else "request"
        return self._failed(explained(error), phase=phase, request_id=request_id_of(error))

    def _late(self) -> PromptEvaluationError:
        return self._failed(
            "the deadline passed before the provider answered; allow more seconds in the prompt's "
            "Budget",
            phase="budget",
        )

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
