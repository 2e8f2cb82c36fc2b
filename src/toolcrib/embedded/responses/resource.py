"""The response as clients see it."""

from __future__ import annotations

from typing import Any

from toolcrib.embedded.ids import new_id
from toolcrib.embedded.responses.request import ResponseRequest, read_format


def new_response(
    asked: ResponseRequest, now: float, backend_metadata: dict[str, str]
) -> dict[str, Any]:
    """A new response without output. `backend_metadata` goes into its metadata."""
    text: dict[str, Any] = {"format": read_format(asked.text).told}
    if asked.text and asked.text.verbosity:
        text["verbosity"] = asked.text.verbosity
    reasoning = asked.reasoning or {}
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(now),
        "completed_at": None,
        "status": "queued" if asked.background else "in_progress",
        "background": bool(asked.background),
        "error": None,
        "incomplete_details": None,
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_output_tokens,
        "max_tool_calls": asked.max_tool_calls,
        "metadata": {**(asked.metadata or {}), **backend_metadata},
        "model": asked.model,
        "output": [],
        "parallel_tool_calls": asked.parallel_tool_calls is not False,
        "previous_response_id": asked.previous_response_id,
        "prompt_cache_key": asked.prompt_cache_key,
        "reasoning": {
            "effort": reasoning.get("effort"),
            "summary": reasoning.get("summary"),
        },
        "safety_identifier": asked.safety_identifier,
        "service_tier": "default",
        "store": asked.is_stored,
        "temperature": 1.0 if asked.temperature is None else asked.temperature,
        "text": text,
        "tool_choice": asked.tool_choice if asked.tool_choice is not None else "auto",
        "tools": [tool_resource(each) for each in asked.tools or []],
        "top_logprobs": 0,
        "top_p": 1.0 if asked.top_p is None else asked.top_p,
        "presence_penalty": asked.presence_penalty or 0.0,
        "frequency_penalty": asked.frequency_penalty or 0.0,
        "truncation": asked.truncation or "disabled",
        "usage": None,
        "user": asked.user,
    }


def tool_resource(asked: dict[str, Any]) -> dict[str, Any]:
    """A tool of the request as the response repeats it: whole, and without its secrets."""
    told = dict(asked)
    if told.get("type") == "function":
        told = {"description": None, "strict": None, **told}
    for secret in ("authorization", "headers"):
        if told.get(secret) is not None:
            told[secret] = "<redacted>" if secret == "authorization" else None
    return told


def usage_resource(input_tokens: int, output_tokens: int) -> dict[str, Any]:
    """What a response took."""
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input_tokens + output_tokens,
    }
