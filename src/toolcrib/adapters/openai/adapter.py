"""Prompts on OpenAI's Responses API: the adapter, its codecs and the classifier of its items."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from toolcrib.adapters.codec import HostedToolCodec
from toolcrib.adapters.compaction import CompactedItems, conversation_of
from toolcrib.adapters.evaluation import Evaluation
from toolcrib.adapters.history import History
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.openai.background import POLL_SECONDS, BackgroundResponses
from toolcrib.adapters.openai.codecs.apply_patch import OpenAIApplyPatchCodec
from toolcrib.adapters.openai.codecs.code_interpreter import OpenAICodeInterpreterCodec
from toolcrib.adapters.openai.codecs.computer import OpenAIComputerCodec
from toolcrib.adapters.openai.codecs.container_shell import OpenAIContainerShellCodec
from toolcrib.adapters.openai.codecs.file_search import OpenAIFileSearchCodec
from toolcrib.adapters.openai.codecs.handler_shell import OpenAIHandlerShellCodec
from toolcrib.adapters.openai.codecs.image_generation import OpenAIImageGenerationCodec
from toolcrib.adapters.openai.codecs.legacy_shell import OpenAILegacyShellCodec
from toolcrib.adapters.openai.codecs.mcp import OpenAIMcpApprovals, OpenAIMcpCodec
from toolcrib.adapters.openai.codecs.program import OpenAIProgramCodec
from toolcrib.adapters.openai.codecs.tool_search import (
    OpenAIHandlerToolSearchCodec,
    OpenAIToolSearchCodec,
)
from toolcrib.adapters.openai.codecs.web_search import OpenAIWebSearchCodec
from toolcrib.adapters.openai.compaction import compacted
from toolcrib.adapters.openai.container_files import staging_of, without_mounts
from toolcrib.adapters.openai.containers import log_runs, ready_containers
from toolcrib.adapters.openai.evaluation import ResponsesEvaluation
from toolcrib.adapters.openai.host_files import SUPPORTED_TYPES, HostFiles, check_types
from toolcrib.adapters.openai.items import (
    PROGRAM_FORMAT,
    RESPONSES_FORMAT,
    CustomCallReader,
    FunctionCallReader,
)
from toolcrib.adapters.openai.model_client import ResponsesClient, ResponsesEndpoint
from toolcrib.adapters.openai.request import RESERVED, Requests, choice_of, function_entry
from toolcrib.adapters.openai.sdk_clients import SdkClients
from toolcrib.adapters.options import Options, checked_options
from toolcrib.adapters.prompt_adapter import PromptAdapter, check_choice, render, without_withheld
from toolcrib.adapters.tool_calls import CallReader, ClientCallReader, ClientCodec, ItemClassifier
from toolcrib.adapters.tool_declarations import (
    NO_TOOLS,
    AnyCodec,
    HostedDeclaration,
    ToolDeclarations,
    function_of,
    stand_ins_of,
    wire_names,
)
from toolcrib.adapters.turn_tools import OnUnsupported, ProviderProfile
from toolcrib.errors import UsageError
from toolcrib.session.session import Session
from toolcrib.tools.code_interpreter import KIND as CODE_INTERPRETER
from toolcrib.tools.code_interpreter import CodeRun
from toolcrib.tools.program import KIND as PROGRAM
from toolcrib.vfs.roots import check_roots

if TYPE_CHECKING:
    from toolcrib.adapters.answer import PromptResponse
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.prompt.prompt import Prompt, RenderedPrompt
    from toolcrib.tools.prepared_tool import PreparedTool


def default_codecs() -> dict[str, HostedToolCodec[Any, Any]]:
    """A new mapping from kind to codec; the caller may add and replace."""
    return {
        "code_interpreter": OpenAICodeInterpreterCodec(),
        "file_search": OpenAIFileSearchCodec(),
        "image_generation": OpenAIImageGenerationCodec(),
        "mcp": OpenAIMcpCodec(),
        "program": OpenAIProgramCodec(),
        "shell": OpenAIContainerShellCodec(),
        "tool_search": OpenAIToolSearchCodec(),
        "web_search": OpenAIWebSearchCodec(),
    }


def default_client_codecs() -> tuple[ClientCodec, ...]:
    """The codecs for tools that OpenAI defines and this process runs."""
    return (
        OpenAIApplyPatchCodec(),
        OpenAIComputerCodec(),
        OpenAILegacyShellCodec(),
        OpenAIHandlerShellCodec(),
        OpenAIHandlerToolSearchCodec(),
    )


def classifier_of(declared: ToolDeclarations, profile: ProviderProfile) -> ItemClassifier:
    """The classifier of a turn. Calls of declared tools are read before calls of tools that OpenAI
    defines and a prompt does not declare.
    """
    readers: list[CallReader] = [
        FunctionCallReader(declared.names),
        CustomCallReader(declared.names, _free_form_arguments(declared)),
    ]
    readers += [
        ClientCallReader(declaration.codec, declaration.tool.name)
        for declaration in declared.client_run
    ]
    readers += [
        ClientCallReader(_approvals(hosted), hosted.tool.name)
        for hosted in declared.hosted
        if hosted.is_mcp
    ]
    has_programs = any(hosted.tool.kind == PROGRAM for hosted in declared.hosted)
    item_format = PROGRAM_FORMAT if has_programs else RESPONSES_FORMAT
    return ItemClassifier(
        declared.hosted, readers, profile.stand_ins, item_format, _UNDECLARED_CALLS
    )


def _free_form_arguments(declared: ToolDeclarations) -> dict[str, str]:
    """By wire name, the argument that the text of a free-form call is."""
    arguments = {function.wire_name: function.free_form_argument for function in declared.functions}
    return {name: argument for name, argument in arguments.items() if argument is not None}


_UNDECLARED_CALLS: Final[Mapping[str, CallReader]] = {
    **{codec.call_type: ClientCallReader(codec, codec.kind) for codec in default_client_codecs()},
    OpenAIMcpApprovals.call_type: ClientCallReader(OpenAIMcpApprovals(), "mcp"),
}
"""Readers for calls of tools that OpenAI defines and a prompt does not declare."""


def _approvals(hosted: HostedDeclaration) -> OpenAIMcpApprovals:
    return OpenAIMcpApprovals(hosted.tool.config.server_label, hosted.secrets)


O = TypeVar("O")  # noqa: E741

PROVIDER = "openai"
FUNCTION_OPTIONS: Final = frozenset(
    {"defer_loading", "namespace", "allowed_callers", "free_form.definition"}
)


class OpenAIAdapter(PromptAdapter):
    """Evaluates prompts on the Responses API, with tools of ours and of the provider.

    `history` says who keeps the conversation: the provider (`server`), or we (`client`), who then
    send all of it with every request and ask the provider to store nothing. With
    `on_unsupported="drop"` a tool that OpenAI does not have is left out, and that is recorded.

    `host_roots` are the folders whose files a code interpreter's `host_mounts` may upload, and
    `upload_types` the extensions that such files may have. With `check_containers`, a container
    that a prompt names is asked for before the prompt is sent. An answer in the background is asked
    for after `poll_seconds`, then in growing intervals. With `compact_above`, a conversation is
    shortened before a prompt that follows a request of more tokens.
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
        on_unsupported: OnUnsupported = "raise",
        retry: Retry | None = None,
        host_roots: Iterable[str | os.PathLike[str]] = (),
        upload_types: Collection[str] = SUPPORTED_TYPES,
        check_containers: bool = False,
        poll_seconds: float = POLL_SECONDS,
        compact_above: int | None = None,
    ) -> None:
        super().__init__(compact_above=compact_above)
        if client is not None and (base_url is not None or api_key is not None):
            raise UsageError("give a client, or base_url and api_key for a new one, not both")
        check_choice("history", history, get_args(History))
        check_choice("on_unsupported", on_unsupported, get_args(OnUnsupported))
        self.model = model
        self.hosted_tool_codecs: dict[str, AnyCodec] = dict(
            default_codecs() if hosted_tool_codecs is None else hosted_tool_codecs
        )
        self.history: History = history
        self.on_unsupported: OnUnsupported = on_unsupported
        self._clients = SdkClients(client, base_url, api_key)
        self.check_containers = check_containers
        self._retry = retry or Retry()
        if not poll_seconds >= 0:
            raise UsageError(f"poll_seconds must be a number from 0, not {poll_seconds!r}")
        self._poll_seconds = poll_seconds
        self._known_profile: ProviderProfile | None = None
        self._host_files = HostFiles(check_roots(host_roots), check_types(upload_types))

    async def aclose(self) -> None:
        """End the connections that were made in this event loop."""
        await self._clients.close_here()

    async def _open(self, prompt: Prompt[O], session: Session, options: Options) -> Evaluation[O]:
        turn_options = checked_options(self.model, options, RESERVED)
        request = render(prompt, self._prepared, session)
        can_stage = bool(self._host_files.roots)
        rendered = without_mounts(request.prompt) if can_stage else request.prompt
        tools = self._turn_tools(prompt, rendered, session, options, self.profile())
        request, tools = without_withheld(prompt, request, tools)
        choice_of(tools.declared, turn_options.tool_choice, prompt.name)
        endpoint = ResponsesEndpoint(self._clients.here(), self._retry)
        interpreters = [
            hosted for hosted in tools.declared.hosted if hosted.tool.kind == CODE_INTERPRETER
        ]
        if interpreters:
            checking_client = endpoint.client if self.check_containers else None
            await ready_containers(interpreters, checking_client, prompt.name)

        background = BackgroundResponses(endpoint.client, self._retry, self._poll_seconds)

        def make_client(tools: TurnTools, prompt: RenderedPrompt[Any]) -> ResponsesClient:
            requests = Requests(prompt, tools.declared, turn_options, self.history)
            return ResponsesClient(endpoint, requests, prompt.name, tools.classifier, background)

        key = getattr(endpoint.client, "api_key", None)
        staging = (
            staging_of(request.prompt, tools, self._host_files, turn_options.budget.seconds)
            if can_stage and interpreters
            else None
        )
        return ResponsesEvaluation(
            request,
            session,
            tools,
            turn_options,
            make_client,
            history=self.history,
            secrets=[key] if isinstance(key, str) else [],
            endpoint=endpoint,
            background=background,
            staging=staging,
        )

    def profile(self) -> ProviderProfile:
        """The profile of this adapter, made again only when the codecs have changed."""
        profile, codecs = self._known_profile, self.hosted_tool_codecs
        if (
            profile is None
            or profile.codecs != codecs
            or profile.on_unsupported != self.on_unsupported
        ):
            profile = ProviderProfile(
                PROVIDER,
                dict(codecs),
                default_client_codecs(),
                # What a program gives back is known only where the prompt declares programs.
                stand_ins_of(codec for kind, codec in codecs.items() if kind != PROGRAM),
                classifier_of,
                self.on_unsupported,
                FUNCTION_OPTIONS,
            )
            self._known_profile = profile
        return profile

    async def _compacted(self, session: Session, instructions: str | None) -> CompactedItems | None:
        classifier = classifier_of(NO_TOOLS, self.profile())
        conversation = await conversation_of(session, self.history, PROVIDER, classifier)
        if conversation.last_response_id is None and not conversation.unsent:
            raise UsageError("the session has no answered prompt; there is nothing to shorten")
        endpoint = ResponsesEndpoint(self._clients.here(), self._retry)
        return await compacted(endpoint, self.model, conversation, instructions)

    def _profile_here(self) -> ProviderProfile:
        return self.profile()

    def _function_entry(self, tool: PreparedTool) -> dict[str, Any]:
        (wire_name,) = wire_names([tool.declaration.name]).values()
        return function_entry(function_of(tool, wire_name))

    def _answered(self, response: PromptResponse[O]) -> PromptResponse[O]:
        if any(isinstance(invocation.params, CodeRun) for _, invocation in response.invocations):
            log_runs(response)
        return response
