"""When a request to the Responses API is worth another try."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

# These come and go; whatever else a provider says would be said again.
_PASSING_CODES: Final = frozenset({"", "server_error", "rate_limit_exceeded"})
_PASSING_STATUSES: Final = frozenset({408, 409, 429})
_HTTP_LIBRARIES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})


class ReplyBroken(Exception):
    """The reply ended too soon, or is not what the API speaks. Never leaves the adapter."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def is_passing(error: Exception) -> bool:
    """Whether the same request may well be answered next time."""
    if isinstance(error, ReplyBroken):
        return error.code in _PASSING_CODES
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return _is_lost_line(error)
    told = _headers(error).get("x-should-retry")
    if told in ("true", "false"):
        return told == "true"
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
    found: Any = getattr(getattr(error, "response", None), "headers", None)
    return {} if found is None else found


def _is_lost_line(error: Exception) -> bool:
    import openai

    # A line that is lost in the middle of a stream comes up as the HTTP library's own error.
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, openai.APIConnectionError) or module in _HTTP_LIBRARIES
