"""The response of a web API as the result of a call."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from toolcrib.errors import CallEnded
from toolcrib.tools.result import ToolResult

_MAX_ERROR_CHARS: Final = 2_000


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """What an API answered, whole."""

    status: int
    media_type: str
    content: bytes
    charset: str = "utf-8"
    retry_after: str | None = None


def result_of(response: ApiResponse, tool: str) -> ToolResult[Any]:
    """JSON as the value, text as text, other bytes in base64 with their type. A refusal fails with
    the status and what the API says.
    """
    value = _value(response, tool)
    if response.status < 300:
        return ToolResult(value=value)
    phrase = _phrase(response.status)
    said = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    message = f"`{tool}` answered {response.status} {phrase}".rstrip()
    if response.status in (401, 403):
        message += "; the credential that is configured for this API is missing or not accepted"
    if response.retry_after is not None:
        message += f"; it may be called again after {response.retry_after[:60]}"
    if said:
        message += f": {said[:_MAX_ERROR_CHARS]}"
    return ToolResult(success=False, value=value, message=message)


def _value(response: ApiResponse, tool: str) -> Any:
    if not response.content:
        return None
    if response.media_type == "application/json" or response.media_type.endswith("+json"):
        try:
            return json.loads(response.content)
        except (ValueError, RecursionError):
            if response.status < 300:
                raise CallEnded(
                    "invalid_result", f"`{tool}` answered what is no JSON, though it says it is."
                ) from None
    if response.media_type.startswith("text/") or response.media_type.endswith(("xml", "json")):
        return _decoded(response)
    return {
        "media_type": response.media_type or "application/octet-stream",
        "size": len(response.content),
        "base64": base64.b64encode(response.content).decode(),
    }


def _decoded(response: ApiResponse) -> str:
    try:
        return response.content.decode(response.charset, "replace")
    except LookupError:
        return response.content.decode("utf-8", "replace")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
