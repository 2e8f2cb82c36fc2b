"""The bodies of a turn's requests, from everything that is known of the turn."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.adapters.openai.choice import choice_of
from toolcrib.adapters.openai.outgoing import Outgoing, encoded
from toolcrib.adapters.openai.output_format import output_format
from toolcrib.errors import PromptEvaluationError

if TYPE_CHECKING:
    from toolcrib.adapters.conversation import Conversation, History
    from toolcrib.adapters.declared import Declared
    from toolcrib.adapters.options import TurnOptions
    from toolcrib.prompt.rendering import RenderedPrompt

RESERVED: Final[Mapping[str, str]] = {
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
"""Fields of a request that are not for settings, and what to do instead."""


class Requests:
    """The requests of one turn. What all of them say is encoded once.

    Raises `PromptEvaluationError` (phase render) for what cannot be JSON.
    """

    def __init__(
        self,
        prompt: RenderedPrompt[Any],
        declared: Declared,
        options: TurnOptions,
        history: History,
    ) -> None:
        self._prompt_name = prompt.name
        self._declared = declared
        self._options = options
        self._outgoing = Outgoing()
        with self._told():
            shared = encoded(_shared(prompt, declared, options, history))
        self._shared = shared[1:-1]

    def body(self, conversation: Conversation) -> bytes:
        """What to send next."""
        own: dict[str, Any] = {}
        if conversation.previous_response_id is not None:
            own["previous_response_id"] = conversation.previous_response_id
        if self._declared.tools:
            own |= _tool_choice(self._declared, self._options, conversation, self._prompt_name)
        with self._told():
            members = [self._shared, b'"input":%b' % self._outgoing.to_json(conversation.unsent)]
        if own:
            members.append(encoded(own)[1:-1])
        return b"{%b}" % b",".join(members)

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except (TypeError, ValueError, RecursionError) as error:
            raise PromptEvaluationError(
                f"the request cannot be written as JSON: {error}",
                prompt_name=self._prompt_name,
                phase="render",
            ) from error


def _shared(
    prompt: RenderedPrompt[Any], declared: Declared, options: TurnOptions, history: History
) -> dict[str, Any]:
    extra: dict[str, Any] = {**options.settings, **declared.body}
    include = [*_listed(extra.pop("include", ())), *declared.include]
    body: dict[str, Any] = {"model": options.model}
    if options.stream:
        body["stream"] = True
    if history == "client":
        body["store"] = False
        include.append("reasoning.encrypted_content")
    if include:
        body["include"] = list(dict.fromkeys(include))
    if declared.tools:
        body["tools"] = declared.tools
    if prompt.output is not None:
        text = cast("Mapping[str, Any]", extra.pop("text", {}))
        body["text"] = {**text, "format": output_format(prompt.output)}
    return {**body, **extra}


def _tool_choice(
    declared: Declared, options: TurnOptions, conversation: Conversation, prompt_name: str
) -> dict[str, Any]:
    """A choice that is forced is forced once: else the model could never answer."""
    wanted = options.tool_choice
    is_over = conversation.steps > 0 and wanted != "none"
    if wanted == "auto" or is_over:
        return {}
    return {"tool_choice": choice_of(declared, wanted, prompt_name)}


def _listed(include: Any) -> list[str]:
    return [include] if isinstance(include, str) else list(include)
