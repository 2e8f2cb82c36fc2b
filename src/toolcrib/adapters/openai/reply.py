"""Replies of the Responses API: the status of a response, and the errors of a failed request."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.items import ModelMessage, ReasoningItem
from toolcrib.adapters.json_fields import mapping_of, maybe_text, plain, text_of
from toolcrib.errors import ReplyBroken

if TYPE_CHECKING:
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.items import ReplyItem
    from toolcrib.ledger.events import ModelStatus

_AGAIN: Final = "; `resume` asks for it again"


def status_of(body: RawItem, items: Sequence[ReplyItem]) -> ModelStatus:
    """The status of a response, as the ledger keeps it."""
    match maybe_text(body, "status"):
        case "incomplete":
            reason = text_of(mapping_of(body, "incomplete_details"), "reason")
            return "refused" if reason == "content_filter" else "incomplete"
        case "failed" | "cancelled" | "queued" | "in_progress":
            return "failed"
        case _:
            pass
    if _is_empty(items):
        return "empty"
    return "completed" if refusal_of(items) is None else "refused"


def problem_in(body: RawItem, items: Sequence[ReplyItem]) -> str | None:
    """Why the turn cannot continue from a response; None when it can."""
    status = maybe_text(body, "status")
    match status:
        case "failed":
            error = mapping_of(body, "error")
            code, message = text_of(error, "code"), text_of(error, "message")
            reason = f"{code or 'no code'}: {message or 'it does not say why'}"
            return f"the provider failed: {reason}{_AGAIN}"
        case "incomplete":
            return _incomplete(text_of(mapping_of(body, "incomplete_details"), "reason"))
        case "cancelled" | "queued" | "in_progress":
            return f"the response is {status}, not complete{_AGAIN}"
        case _:
            pass
    if _is_empty(items):
        return f"the response is empty: the model gave neither an answer nor a call{_AGAIN}"
    refusal = refusal_of(items)
    return None if refusal is None else f"the model refused: {refusal}"


def _is_empty(items: Sequence[ReplyItem]) -> bool:
    return all(isinstance(item, ReasoningItem) for item in items)


def _incomplete(reason: str) -> str:
    match reason:
        case "content_filter":
            return (
                "the answer was filtered (content_filter); nothing of it can be used, so ask in "
                "other words"
            )
        case "max_output_tokens":
            return (
                "the answer was cut off (max_output_tokens); allow more output tokens in settings, "
                "or ask for less"
            )
        case _:
            return f"the answer is incomplete ({reason or 'the provider does not say why'}){_AGAIN}"


def refusal_of(items: Sequence[ReplyItem]) -> str | None:
    """The words in which the model refused; None when it did not."""
    for item in items:
        if isinstance(item, ModelMessage) and item.refusal is not None:
            return item.refusal
    return None


WHAT_TO_DO: Final = (
    " The container is gone and so are its files; use a new one (AutoContainer, create_container "
    "or renew_container). What ran in it can only be replayed as text: an adapter with "
    "history='client' does so."
)
_GONE: Final = re.compile(r"\bcontainer\b[^.{}]{0,120}\b(?:expired|not found)\b", re.IGNORECASE)


def said(error: Exception, client: Any) -> str:
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
    asked = asked_pause(error)
    if asked:
        text += f" It asks to wait {asked:g} seconds."
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
