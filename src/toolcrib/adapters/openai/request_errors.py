"""Errors of requests to OpenAI: what they say, and whether another attempt may succeed."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from toolcrib.adapters.items import plain, text_of
from toolcrib.errors import ReplyBroken

WHAT_TO_DO: Final = (
    " The container is gone and so are its files; use a new one (AutoContainer, create_container "
    "or renew_container). What ran in it can only be replayed as text: an adapter with "
    "history='client' does so."
)
_GONE: Final = re.compile(r"\bcontainer\b[^.{}]{0,120}\b(?:expired|not found)\b", re.IGNORECASE)


def error_text(error: Exception, client: Any) -> str:
    """What an error of the SDK says, without the client's key: servers between us and the provider
    may repeat what they were sent.
    """
    key = getattr(client, "api_key", None)
    text = _error_text(error)
    return text.replace(key, "[secret]") if isinstance(key, str) and key else text


def is_container_gone(error: Exception) -> bool:
    """Whether an error says that a container is no more. There is no code for it, only words."""
    is_refusal = getattr(error, "status_code", None) in (400, 404)
    return is_refusal and _GONE.search(str(error)) is not None


def _error_text(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    body = plain(getattr(error, "body", None))
    text = text_of(body, "message") or str(error) or type(error).__name__
    text = ": ".join(filter(None, (text_of(body, "code"), text)))
    if is_container_gone(error):
        text += WHAT_TO_DO
    pause = asked_pause(error)
    if pause:
        text += f" It asks to wait {pause:g} seconds."
    return f"HTTP {status}: {text}" if status else text


# These come and go; whatever else a provider says would be said again.
_PASSING_CODES: Final = frozenset({"", "server_error", "rate_limit_exceeded"})


_PASSING_STATUSES: Final = frozenset({408, 409, 429})


_HTTP_LIBRARIES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})


def is_passing(error: Exception) -> bool:
    """Whether the same request may well be answered next time."""
    if isinstance(error, ReplyBroken):
        return error.code in _PASSING_CODES
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return _is_lost_line(error)
    hint = _headers(error).get("x-should-retry")
    if hint in ("true", "false"):
        return hint == "true"
    # A quota does not refill while a prompt waits, though it is told like a rate limit.
    if getattr(error, "code", None) == "insufficient_quota":
        return False
    return status in _PASSING_STATUSES or status >= 500


def asked_pause(error: Exception) -> float | None:
    """The seconds that the server asks to wait; None when it does not say."""
    headers = _headers(error)
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _seconds(headers.get(name))
        if seconds is not None:
            return max(0.0, seconds * unit)
    return None


def _seconds(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return _until(value)
    return None if math.isnan(seconds) else seconds


def _until(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None


def _headers(error: Exception) -> Mapping[str, str]:
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    return {} if headers is None else headers


def _is_lost_line(error: Exception) -> bool:
    import openai

    # A line that is lost in the middle of a stream comes up as the HTTP library's own error.
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, openai.APIConnectionError) or module in _HTTP_LIBRARIES
