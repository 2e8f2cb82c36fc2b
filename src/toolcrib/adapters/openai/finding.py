"""Whether a response is an answer, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import mapping_of, mappings_of, maybe_text, text_of

if TYPE_CHECKING:
    from toolcrib.session.events import ModelStatus

_AGAIN: Final = "; `resume` asks for it again"


def status_of(body: Item) -> ModelStatus:
    """What a response came to, as the ledger keeps it."""
    match maybe_text(body, "status"):
        case "incomplete":
            reason = text_of(mapping_of(body, "incomplete_details"), "reason")
            return "refused" if reason == "content_filter" else "incomplete"
        case "failed" | "cancelled" | "queued" | "in_progress":
            return "failed"
        case _:
            items = mappings_of(body, "output")
    if _is_empty(items):
        return "empty"
    return "completed" if refusal_of(items) is None else "refused"


def problem_in(body: Item) -> str | None:
    """Why a response is no answer; None when it is one."""
    status = maybe_text(body, "status")
    items = mappings_of(body, "output")
    match status:
        case "failed":
            error = mapping_of(body, "error")
            code, message = text_of(error, "code"), text_of(error, "message")
            told = f"{code or 'no code'}: {message or 'it does not say why'}"
            return f"the provider failed: {told}{_AGAIN}"
        case "incomplete":
            reason = text_of(mapping_of(body, "incomplete_details"), "reason")
            return _incomplete(reason)
        case "cancelled" | "queued" | "in_progress":
            return f"the response is {status}, not complete{_AGAIN}"
        case _:
            pass
    return _problem_of(items)


def _problem_of(items: Sequence[Item]) -> str | None:
    """Why the items of a complete response are no answer; None when they are one."""
    if _is_empty(items):
        return f"the response is empty: the model gave neither an answer nor a call{_AGAIN}"
    refusal = refusal_of(items)
    return None if refusal is None else f"the model refused: {refusal}"


def _is_empty(items: Sequence[Item]) -> bool:
    return all(item.get("type") == "reasoning" for item in items)


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
            told = reason or "the provider does not say why"
            return f"the answer is incomplete ({told}){_AGAIN}"


def refusal_of(items: Sequence[Item]) -> str | None:
    """What the model says when it refuses; None when it does not."""
    for item in items:
        if item.get("type") == "message":
            for part in mappings_of(item, "content"):
                if part.get("type") == "refusal":
                    return text_of(part, "refusal") or "it does not say why"
    return None
