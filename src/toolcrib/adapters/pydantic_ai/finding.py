"""Whether a model's response is an answer, and if not, why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.items import maybe_text

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse, ModelResponsePart

    from toolcrib.session.events import ModelStatus

_AGAIN: Final = "; `resume` asks for it again"
# These always say why they stopped; others may leave it out.
_TELLING: Final = frozenset(
    {
        "anthropic",
        "azure",
        "bedrock",
        "google",
        "google-cloud",
        "groq",
        "mistral",
        "openai",
        "openrouter",
    }
)


def found(response: ModelResponse, provider: str) -> tuple[ModelStatus, str | None]:
    """What a response came to, and why nothing can follow from it; None when something can.

    Elsewhere a reason that nobody knows may be any; the Responses API has one for success, and
    tells of every other only when the answer is not whole.
    """
    details = _details(response)
    told = maybe_text(details, "finish_reason") or maybe_text(details, "block_reason")
    reason = told or response.finish_reason
    match response.finish_reason:
        case "content_filter":
            return "refused", _refused(details, reason)
        case "length":
            return "incomplete", (
                f"the answer was cut off ({reason}); allow more output tokens in settings "
                "(max_tokens), or ask for less"
            )
        case "error":
            return "failed", f"the provider failed ({reason}), and does not say why{_AGAIN}"
        case None if told and provider == "openai-responses":
            return "incomplete", f"the answer is incomplete ({told}){_AGAIN}"
        case _:
            pass
    if response.state == "suspended":
        return "paused", None
    if response.state != "complete":
        return "failed", f"the response is {response.state}, not complete{_AGAIN}"
    if all(_is_silent(part) for part in response.parts):
        return "empty", (
            f"the response is empty: the model gave neither an answer nor a call{_AGAIN}"
        )
    return "completed", None


def is_cut(response: ModelResponse) -> bool:
    """Whether a response broke off although the line was closed in good order: it does not say why
    it stopped, and its provider always does. What is not told, pydantic-ai may fill in.
    """
    if response.finish_reason not in (None, "stop", "tool_call") or response.state == "suspended":
        return False
    details = _details(response)
    is_told = bool(details.get("finish_reason") or details.get("refusal"))
    return not is_told and (response.provider_name in _TELLING or response.state == "incomplete")


def _refused(details: dict[str, Any], reason: str | None) -> str:
    words = maybe_text(details, "refusal")
    if words:
        return f"the model refused: {words}"
    return f"the answer was filtered ({reason}); nothing of it can be used, so ask in other words"


def _is_silent(part: ModelResponsePart) -> bool:
    """Whether a part neither answers nor does anything. A call needs no arguments to be one."""
    return part.part_kind == "thinking" or (part.part_kind == "text" and not part.has_content())


def _details(response: ModelResponse) -> dict[str, Any]:
    return response.provider_details or {}
