"""Prompts on OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.adapters.budget import Budget
from toolcrib.adapters.openai.conversation import History
from toolcrib.adapters.openai.declared import AnyCodec
from toolcrib.adapters.openai.evaluation import Evaluation
from toolcrib.adapters.openai.opening import Governance, open_turn
from toolcrib.adapters.openai.registry import default_codecs
from toolcrib.adapters.openai.turn import TurnOptions
from toolcrib.adapters.openai.wire import Retry, Wire
from toolcrib.adapters.portal import Portal
from toolcrib.errors import InvalidPrompt, PromptEvaluationError, UsageError
from toolcrib.session.session import Session

if TYPE_CHECKING:
    from toolcrib.adapters.response import PromptResponse
    from toolcrib.prompt.prompt import Prompt
    from toolcrib.prompt.rendering import RenderedPrompt
    from toolcrib.session.bus import EventBus

O = TypeVar("O")  # noqa: E741

PROVIDER = "openai"


class OpenAIAdapter:
    """Evaluates prompts on the Responses API, with tools of ours and of the provider.

    `history` says who keeps the conversation: the provider (`server`), or we (`client`), who then
    send all of it with every request and ask the provider to store nothing.
    """

    name = PROVIDER

    def __init__(
        self,
        *,
        model: str,
        client: Any = None,
        base_url: str | None = None,
        api_key: str | None = None,
        hosted_tool_codecs: Mapping[str, AnyCodec] | None = None,
        history: History = "server",
        retry: Retry | None = None,
    ) -> None:
        if client is not None and (base_url is not None or api_key is not None):
            raise UsageError("give a client, or base_url and api_key for a new one, not both")
        self.model = model
        self.hosted_tool_codecs: dict[str, AnyCodec] = dict(
            default_codecs() if hosted_tool_codecs is None else hosted_tool_codecs
        )
        self.history: History = history
        self._client = client
        self._base_url = base_url
        self._api_key = api_key
        self._retry = retry or Retry()
        self._portal = Portal()

    def evaluate(self, prompt: Prompt[O], **options: Any) -> PromptResponse[O]:
        """Evaluate a prompt and wait for the answer. Takes the options of `evaluate_async`."""
        return self._portal.run(self.evaluate_async(prompt, **options), "evaluate_async")

    def resume(self, prompt: Prompt[O], **options: Any) -> PromptResponse[O]:
        """Go on with a prompt whose calls waited. Takes the options of `resume_async`."""
        return self._portal.run(self.resume_async(prompt, **options), "resume_async")

    async def evaluate_async(
        self,
        prompt: Prompt[O],
        *,
        session: Session | None = None,
        bus: EventBus | None = None,
        governance: Governance | None = None,
        tool_choice: str = "auto",
        budget: Budget | None = None,
        stream: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> PromptResponse[O]:
        """Evaluate a prompt. Raises `PromptEvaluationError`; nothing is sent before it is known
        that everything in the prompt can be.

        `settings` are further fields of the request, as the provider names them.
        """
        options = self._options(tool_choice, budget, stream, settings)
        return await self._open(prompt, session, bus, governance, options).start()

    async def resume_async(
        self,
        prompt: Prompt[O],
        *,
        session: Session,
        bus: EventBus | None = None,
        governance: Governance | None = None,
        budget: Budget | None = None,
        stream: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> PromptResponse[O]:
        """Go on where a prompt stopped to wait, in this process or another: what was asked and
        what ran is taken from the session's ledger and not repeated.
        """
        options = self._options("auto", budget, stream, settings)
        return await self._open(prompt, session, bus, governance, options).go_on()

    def close(self) -> None:
        """End the thread that blocking calls use."""
        self._portal.close()

    def _options(
        self,
        tool_choice: str,
        budget: Budget | None,
        stream: bool,
        settings: Mapping[str, Any] | None,
    ) -> TurnOptions:
        return TurnOptions(
            model=self.model,
            tool_choice=tool_choice,
            budget=budget or Budget(),
            stream=stream,
            settings=dict(settings or {}),
        )

    def _open(
        self,
        prompt: Prompt[O],
        session: Session | None,
        bus: EventBus | None,
        governance: Governance | None,
        options: TurnOptions,
    ) -> Evaluation[O]:
        rendered = _render(prompt)
        session = session or Session(bus=bus)
        if bus is not None:
            session.bus.forward_to(bus)
        opening = open_turn(
            rendered,
            session,
            governance or Governance(),
            self.hosted_tool_codecs,
            provider=PROVIDER,
        )
        opening.declared.choice(options.tool_choice, rendered.name)
        return Evaluation(rendered, session, opening, options, self._wire(), self.history)

    def _wire(self) -> Wire:
        """The line to the provider; the SDK is imported and the client made when first needed."""
        if self._client is None:
            try:
                from openai import AsyncOpenAI
            except ImportError:
                raise UsageError(
                    "the OpenAI SDK is not installed; run: pip install 'toolcrib[openai]'"
                ) from None
            self._client = AsyncOpenAI(base_url=self._base_url, api_key=self._api_key)
        return Wire(self._client, self._retry)


def _render(prompt: Prompt[O]) -> RenderedPrompt[O]:
    try:
        return prompt.render()
    except InvalidPrompt as error:
        raise PromptEvaluationError(str(error), prompt_name=prompt.name, phase="render") from error
