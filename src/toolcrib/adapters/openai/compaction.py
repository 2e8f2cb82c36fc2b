"""`/responses/compact`: the provider's own way to make a conversation shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.compaction import CompactedItems
from toolcrib.adapters.items import mappings_of, plain
from toolcrib.adapters.model_client import send_with_retries
from toolcrib.adapters.openai.containers import retold
from toolcrib.adapters.openai.items import write_item
from toolcrib.adapters.openai.model_client import usage_of
from toolcrib.adapters.openai.request import encoded
from toolcrib.adapters.openai.request_errors import asked_pause, error_text, is_passing
from toolcrib.errors import PromptEvaluationError

if TYPE_CHECKING:
    from toolcrib.adapters.history import Conversation
    from toolcrib.adapters.openai.model_client import ResponsesEndpoint

PROMPT_NAME: Final = "toolcrib:compact"
_OPTIONS: Final = {"max_retries": 0, "security": {"bearer_auth": True}}
_UNKNOWN_ROUTE: Final = frozenset({404, 405, 501})


async def compacted(
    endpoint: ResponsesEndpoint, model: str, conversation: Conversation, instructions: str | None
) -> CompactedItems | None:
    """The conversation made shorter; None when the server has no such endpoint.

    Raises `PromptEvaluationError` (phase request).
    """
    body: dict[str, Any] = {"model": model}
    if instructions:
        body["instructions"] = instructions
    if conversation.last_response_id is not None:
        body["previous_response_id"] = conversation.last_response_id
    items = retold(conversation.unsent, conversation.expired)
    if items:
        body["input"] = [write_item(item) for item in items]
    content = encoded(body)

    async def send() -> dict[str, Any]:
        client = endpoint.client
        return plain(
            await client.post(
                "/responses/compact", content=content, cast_to=object, options=_OPTIONS
            )
        )

    try:
        reply = await send_with_retries(
            send, endpoint.retry, None, is_passing=is_passing, requested_pause=asked_pause
        )
    except Exception as error:
        if getattr(error, "status_code", None) in _UNKNOWN_ROUTE:
            return None
        raise PromptEvaluationError(
            f"the conversation was not shortened: {error_text(error, endpoint.client)}",
            prompt_name=PROMPT_NAME,
            phase="request",
            request_id=getattr(error, "request_id", None),
        ) from error
    output = mappings_of(reply, "output")
    if not output:
        raise PromptEvaluationError(
            "the conversation was not shortened: the provider's reply has no items",
            prompt_name=PROMPT_NAME,
            phase="response",
        )
    return CompactedItems([*output], usage_of(reply), model)
