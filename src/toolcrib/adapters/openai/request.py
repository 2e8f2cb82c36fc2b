"""The body of a request, from everything that is known of the turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.adapters.budget import Budget
from toolcrib.adapters.openai.content import output_format
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.adapters.openai.conversation import Conversation
    from toolcrib.adapters.openai.declared import Declared
    from toolcrib.prompt.rendering import RenderedPrompt

_OURS: Final[Mapping[str, str]] = {
    "background": "a prompt is waited for",
    "conversation": "choose with the adapter's history= who keeps the conversation",
    "input": "it is the prompt",
    "model": "it is the adapter's model=",
    "previous_response_id": "choose with the adapter's history= who keeps the conversation",
    "store": "choose with the adapter's history= who keeps the conversation",
    "stream": "pass stream= to evaluate",
    "tool_choice": "pass tool_choice= to evaluate",
    "tools": "they are the prompt's",
}


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """How a prompt is asked."""

    model: str
    tool_choice: str = "auto"
    budget: Budget = field(default_factory=Budget)
    stream: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the request, as the provider names them."""

    def __post_init__(self) -> None:
        taken = sorted(self.settings.keys() & _OURS.keys())
        if taken:
            raise UsageError(f"settings may not hold {taken[0]!r}: {_OURS[taken[0]]}")


def request_body(
    prompt: RenderedPrompt[Any],
    declared: Declared,
    options: TurnOptions,
    conversation: Conversation,
) -> dict[str, Any]:
    """What to send next."""
    extra: dict[str, Any] = {**options.settings, **declared.body}
    include = [*_listed(extra.pop("include", ())), *declared.include]
    body: dict[str, Any] = {"model": options.model, "input": conversation.unsent}
    if conversation.history == "client":
        body["store"] = False
        include.append("reasoning.encrypted_content")
    elif conversation.previous_response_id is not None:
        body["previous_response_id"] = conversation.previous_response_id
    if include:
        body["include"] = list(dict.fromkeys(include))
    if declared.tools:
        body["tools"] = declared.tools
        body |= _tool_choice(declared, options, conversation, prompt.name)
    if prompt.output is not None:
        text = cast("Mapping[str, Any]", extra.pop("text", {}))
        body["text"] = {**text, "format": output_format(prompt.output)}
    # Past the SDK's signature, which may not know the newest fields.
    return {**body, "extra_body": extra} if extra else body


def _tool_choice(
    declared: Declared, options: TurnOptions, conversation: Conversation, prompt_name: str
) -> dict[str, Any]:
    """A choice that is forced is forced once: else the model could never answer."""
    wanted = options.tool_choice
    is_over = conversation.steps > 0 and wanted != "none"
    if wanted == "auto" or is_over:
        return {}
    return {"tool_choice": declared.choice(wanted, prompt_name)}


def _listed(include: Any) -> list[str]:
    return [include] if isinstance(include, str) else list(include)
