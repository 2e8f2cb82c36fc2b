"""`PydanticAIAdapter`: evaluates prompts on any model of pydantic-ai."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from toolcrib.adapters.compaction import CompactedItems, conversation_of
from toolcrib.adapters.evaluation import Evaluation, PromptRequest
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.options import Options, checked_options
from toolcrib.adapters.prompt_adapter import PromptAdapter, check_choice, render, without_withheld
from toolcrib.adapters.pydantic_ai.codecs.registry import default_client_codecs, default_codecs
from toolcrib.adapters.pydantic_ai.codecs.unknown import KIND
from toolcrib.adapters.pydantic_ai.compaction import compacted
from toolcrib.adapters.pydantic_ai.item_classifier import classifier_of
from toolcrib.adapters.pydantic_ai.messages import MessageHistory
from toolcrib.adapters.pydantic_ai.model_client import PydanticAIClient
from toolcrib.adapters.pydantic_ai.models import ModelSource, keys_of, provider_of, system_of
from toolcrib.adapters.pydantic_ai.patched_models import patch_model
from toolcrib.adapters.pydantic_ai.request import RESERVED, check_own_settings, request_template
from toolcrib.adapters.tool_declarations import NO_TOOLS, AnyCodec, stand_ins_of, wire_names
from toolcrib.adapters.turn_tools import OnUnsupported, ProviderProfile
from toolcrib.errors import PromptEvaluationError, UsageError
from toolcrib.session.session import Session

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.prompt.prompt import Prompt, RenderedPrompt
    from toolcrib.tools.prepared_tool import PreparedTool

O = TypeVar("O")  # noqa: E741


class PydanticAIAdapter(PromptAdapter):
    """Evaluates prompts on a pydantic-ai model, which is given by its name or as an object.

    The provider, and with it the supported options, follows from the model; pass `provider` where
    it does not. With `on_unsupported="drop"` a tool that the provider does not have is left out,
    and that is recorded. With `compact_above`, a conversation is shortened before a prompt that
    follows a request of more tokens.
    """

    name = "pydantic-ai"

    def __init__(
        self,
        model: Model | str,
        *,
        provider: str | None = None,
        hosted_tool_codecs: Mapping[str, AnyCodec] | None = None,
        on_unsupported: OnUnsupported = "raise",
        retry: Retry | None = None,
        compact_above: int | None = None,
    ) -> None:
        super().__init__(compact_above=compact_above)
        check_choice("on_unsupported", on_unsupported, get_args(OnUnsupported))
        self.on_unsupported: OnUnsupported = on_unsupported
        self._models = ModelSource(model)
        self._provider = provider
        self._codecs = hosted_tool_codecs
        self._retry = retry or Retry()
        self._profiles: dict[tuple[str, str], ProviderProfile] = {}

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._models.name

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._models.close_here()

    async def _open(self, prompt: Prompt[O], session: Session, options: Options) -> Evaluation[O]:
        turn_options = checked_options(self.model, options, RESERVED)
        if turn_options.background:
            raise UsageError(
                "background=True works with OpenAIAdapter and the embedded provider; a model of "
                "pydantic-ai is waited for, so leave it out"
            )
        request = render(prompt, self._prepared, session)
        model = patch_model(self._models.here())
        check_own_settings(model)
        system = system_of(model)
        profile = self._profile(self._provider or provider_of(model), system)
        tools = self._turn_tools(prompt, request.prompt, session, options, profile)
        request, tools = without_withheld(prompt, request, tools)
        template = request_template(request.prompt, tools.declared, turn_options, model)
        _check_files(request, MessageHistory(system))

        def make_client(tools: TurnTools, prompt: RenderedPrompt[O]) -> PydanticAIClient:
            messages = MessageHistory(system)
            return PydanticAIClient(
                model,
                template,
                messages,
                prompt.name,
                tools.provider,
                tools.classifier,
                self._retry,
            )

        return Evaluation(
            request,
            session,
            tools,
            turn_options,
            make_client,
            history="client",
            secrets=keys_of(model),
        )

    async def _compacted(self, session: Session, instructions: str | None) -> CompactedItems | None:
        model = patch_model(self._models.here())
        system, profile = system_of(model), self._profile_here()
        classifier = classifier_of(NO_TOOLS, profile)
        conversation = await conversation_of(session, "client", profile.provider, classifier)
        messages = MessageHistory(system).extend(conversation.unsent)
        return await compacted(model, messages, instructions, self._retry)

    def _profile_here(self) -> ProviderProfile:
        model = self._models.sample()
        return self._profile(self._provider or provider_of(model), system_of(model))

    def _function_entry(self, tool: PreparedTool) -> dict[str, Any]:
        declaration = tool.declaration
        (wire_name,) = wire_names([declaration.name]).values()
        return {
            "type": "function",
            "name": wire_name,
            "description": declaration.description,
            "parameters": declaration.parameters,
        }

    def _profile(self, provider: str, system: str) -> ProviderProfile:
        """The tools that the provider supports; made once for each provider."""
        key = provider, system
        if key not in self._profiles:
            codecs = default_codecs(provider, system) if self._codecs is None else self._codecs
            # Calls that no other codec knows are recorded under their provider's own name.
            stand_ins = stand_ins_of(codec for kind, codec in codecs.items() if kind != KIND)
            self._profiles[key] = ProviderProfile(
                provider,
                codecs,
                default_client_codecs(provider),
                stand_ins,
                classifier_of,
                self.on_unsupported,
            )
        return self._profiles[key]


def _check_files(request: PromptRequest[Any], messages: MessageHistory) -> None:
    """Refuse files that cannot be sent, before anything is recorded."""
    if not request.prompt.attachments:
        return
    try:
        messages.extend([request.message])
    except UsageError as error:
        name = request.prompt.name
        raise PromptEvaluationError(str(error), prompt_name=name, phase="render") from error
