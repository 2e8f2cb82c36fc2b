"""The settings that a model's requests are made with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.adapters.pydantic_ai.models import speakers
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from pydantic_ai.settings import ModelSettings

_CONVERSATION: Final = "the adapter keeps the conversation, in the session's ledger"
_SECONDS: Final = "give the prompt a Budget with seconds"

_UNFIT: Final[Mapping[str, str]] = {
    "first_event_timeout": _SECONDS,
    "openai_background": "a prompt is waited for",
    "openai_conversation_id": _CONVERSATION,
    "openai_previous_response_id": _CONVERSATION,
    "request_timeout": _SECONDS,
    "tool_choice": "pass tool_choice= to evaluate",
}
RESERVED: Final[Mapping[str, str]] = {**_UNFIT, "max_retries": "pass retry= to the adapter"}
"""Settings that are not for the caller, and what to do instead."""


def check_own_settings(model: Any) -> None:
    """Refuse a model with settings of its own that would break the loop, or that only agents
    keep to. Its retries are left out without a word: ours take their place.
    """
    for each in (model, *speakers(model)):
        own: Mapping[str, Any] = each.settings or {}
        taken = sorted(own.keys() & _UNFIT.keys())
        if taken:
            raise UsageError(
                f"the model's own settings hold {taken[0]!r}, which does not work with prompts: "
                f"{_UNFIT[taken[0]]}"
            )


def settings_of(model: Any, given: Mapping[str, Any]) -> ModelSettings:
    """The settings with which a model is asked."""
    found = dict(given)
    if any("max_retries" not in each.unsupported_settings for each in speakers(model)):
        # Retries are ours, because they must end with the prompt's deadline.
        found["max_retries"] = 0
    return cast("ModelSettings", found)
