"""Conversations made shorter by providers that can, through pydantic-ai."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.adapters.compaction import CompactedItems
from toolcrib.adapters.model_client import Retry, send_with_retries
from toolcrib.adapters.pydantic_ai.model_client import (
    error_text,
    is_passing,
    request_id_of,
    requested_pause,
    usage_of,
)
from toolcrib.adapters.pydantic_ai.parts import items_of
from toolcrib.errors import PromptEvaluationError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model


async def compacted(
    model: Model, messages: list[ModelMessage], instructions: str | None, retry: Retry
) -> CompactedItems | None:
    """The conversation made shorter; None when the model has no way to do it.

    Raises `PromptEvaluationError` (phase request).
    """
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters

    context = ModelRequestContext(
        model=model,
        messages=messages,
        model_settings=None,
        model_request_parameters=ModelRequestParameters(),
    )

    async def send() -> ModelResponse:
        return await model.compact_messages(context, instructions=instructions)

    try:
        response = await send_with_retries(
            send, retry, None, is_passing=is_passing, requested_pause=requested_pause
        )
    except NotImplementedError:
        return None
    except Exception as error:
        raise PromptEvaluationError(
            f"the conversation was not shortened: {error_text(error)}",
            prompt_name="toolcrib:compact",
            phase="request",
            request_id=request_id_of(error),
        ) from error
    name = response.model_name or model.model_name
    return CompactedItems(
        items_of(response), usage_of(response.usage), name, response.provider_response_id
    )
