"""Prompts on OpenAI's Responses API.

Which codec speaks for which kind of tool on OpenAI.

How the items of the Responses API are sorted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from toolcrib.adapters.codec import HostedToolCodec, RawItem
from toolcrib.adapters.evaluation import Evaluation
from toolcrib.adapters.history import History
from toolcrib.adapters.item_classifier import ItemClassifier
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.openai.codecs.apply_patch import OpenAIApplyPatchCodec
from toolcrib.adapters.openai.codecs.code_interpreter import OpenAICodeInterpreterCodec
from toolcrib.adapters.openai.codecs.file_search import OpenAIFileSearchCodec
from toolcrib.adapters.openai.codecs.image_generation import OpenAIImageGenerationCodec
from toolcrib.adapters.openai.codecs.legacy_shell import OpenAILegacyShellCodec
from toolcrib.adapters.openai.codecs.local_shell import OpenAILocalShellCodec
from toolcrib.adapters.openai.codecs.mcp import OpenAIMcpApprovals, OpenAIMcpCodec
from toolcrib.adapters.openai.codecs.shell import OpenAIShellCodec
from toolcrib.adapters.openai.codecs.tool_search import (
    OpenAILocalToolSearchCodec,
    OpenAIToolSearchCodec,
)
from toolcrib.adapters.openai.codecs.unknown import OpenAIUnknownCodec, is_any_call, kind_of
from toolcrib.adapters.openai.codecs.web_search import OpenAIWebSearchCodec
from toolcrib.adapters.openai.container_files import StagedEvaluation, staging_of, without_mounts
from toolcrib.adapters.openai.containers import log_runs, ready_containers
from toolcrib.adapters.openai.host_files import SUPPORTED_TYPES, HostFiles, check_types
from toolcrib.adapters.openai.model_client import ResponsesClient, ResponsesEndpoint, SdkClients
from toolcrib.adapters.openai.request import RESERVED, Requests, choice_of
from toolcrib.adapters.options import Options, turn_options
from toolcrib.adapters.prompt_adapter import PromptAdapter, check_choice, render
from toolcrib.adapters.tool_calls import (
    CallReader,
    ClientCallReader,
    ClientCodec,
    CustomCallReader,
    FunctionCallReader,
)
from toolcrib.adapters.tool_declarations import (
    AnyCodec,
    HostedDeclaration,
    ToolDeclarations,
    undeclared,
)
from toolcrib.adapters.turn_tools import OnUnsupported, ProviderProfile
from toolcrib.errors import UsageError
from toolcrib.session.session import Session
from toolcrib.vfs.roots import check_roots

if TYPE_CHECKING:
    from toolcrib.adapters.response import PromptResponse
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.prompt.prompt import Prompt
    from toolcrib.prompt.rendered_prompt import RenderedPrompt


def default_codecs() -> dict[str, HostedToolCodec[Any, Any]]:
    """A new mapping from kind to codec; the caller may add and replace."""
    return {
        "code_interpreter": OpenAICodeInterpreterCodec(),
        "file_search": OpenAIFileSearchCodec(),
        "image_generation": OpenAIImageGenerationCodec(),
        "mcp": OpenAIMcpCodec(),
        "shell": OpenAIShellCodec(),
        "tool_search": OpenAIToolSearchCodec(),
        "web_search": OpenAIWebSearchCodec(),
    }


def default_client_codecs() -> tuple[ClientCodec, ...]:
    """The codecs for tools that OpenAI defines and this process runs."""
    return (
        OpenAIApplyPatchCodec(),
        OpenAILegacyShellCodec(),
        OpenAILocalShellCodec(),
        OpenAILocalToolSearchCodec(),
    )


NO_CALLS: Final = frozenset(
    {
        "message",
        "reasoning",
        "compaction",
        "compaction_summary",
        "function_call_output",
        "custom_tool_call_output",
        "shell_call_output",
        "tool_search_output",
        "mcp_list_tools",
    }
)
"""Item types that are no call: they belong to the answer, to the tool or to a call elsewhere."""


def sorter_of(
    declared: ToolDeclarations, codecs: Mapping[str, AnyCodec], client_codecs: Sequence[ClientCodec]
) -> ItemClassifier:
    """The sorter of a turn."""
    ours: list[CallReader] = [FunctionCallReader(declared.names), CustomCallReader(declared.names)]
    ours += [ClientCallReader(each.codec, each.tool.name) for each in declared.client_run]
    ours += [
        ClientCallReader(_approvals(hosted), hosted.tool.name)
        for hosted in declared.hosted
        if hosted.is_mcp
    ]
    ours += [ClientCallReader(codec, codec.kind) for codec in client_codecs]
    ours.append(ClientCallReader(OpenAIMcpApprovals(), "mcp"))
    return ItemClassifier(declared, codecs, ours, NO_CALLS, _unknown)


def _approvals(hosted: HostedDeclaration) -> OpenAIMcpApprovals:
    return OpenAIMcpApprovals(hosted.tool.config.server_label, hosted.secrets)


def _unknown(item: RawItem) -> HostedDeclaration | None:
    if not is_any_call(item):
        return None
    kind = kind_of(item)
    return HostedDeclaration(undeclared(kind), OpenAIUnknownCodec(kind))


O = TypeVar("O")  # noqa: E741

PROVIDER = "openai"


class OpenAIAdapter(PromptAdapter):
    """Evaluates prompts on the Responses API, with tools of ours and of the provider.

    `history` says who keeps the conversation: the provider (`server`), or we (`client`), who then
    send all of it with every request and ask the provider to store nothing. With
    `on_unsupported="drop"` a tool that OpenAI does not have is left out, and that is recorded.

    `host_roots` are the folders whose files a code interpreter's `host_mounts` may upload, and
    `upload_types` the extensions that such files may have. With `check_containers`, a container
    that a prompt names is asked for before the prompt is sent.
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
    ) -> None:
        super().__init__()
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
        self._host_files = HostFiles(check_roots(host_roots), check_types(upload_types))

    async def aclose(self) -> None:
        """End the connections that were made in this event loop."""
        await self._clients.close_here()

    async def _open(self, prompt: Prompt[O], session: Session, options: Options) -> Evaluation[O]:
        asked = turn_options(self.model, options, RESERVED)
        question = render(prompt)
        can_stage = bool(self._host_files.roots)
        rendered = without_mounts(question.prompt) if can_stage else question.prompt
        opening = self._opening(prompt, rendered, session, options, self._dialect())
        choice_of(opening.declared, asked.tool_choice, question.prompt.name)
        wire = ResponsesEndpoint(self._clients.here(), self._retry)
        asked_for = wire.client if self.check_containers else None
        await ready_containers(opening.declared.hosted, asked_for, question.prompt.name)

        def make_line(opening: TurnTools, prompt: RenderedPrompt[Any]) -> ResponsesClient:
            requests = Requests(prompt, opening.declared, asked, self.history)
            return ResponsesClient(wire, requests, prompt.name)

        key = getattr(wire.client, "api_key", None)
        secrets = [key] if isinstance(key, str) else []
        told = (question, session, opening, asked, make_line)
        staging = staging_of(question.prompt, opening, self._host_files, asked.budget.seconds)
        if staging is None:
            return Evaluation(*told, history=self.history, secrets=secrets)
        return StagedEvaluation(
            *told, history=self.history, secrets=secrets, staging=staging, wire=wire
        )

    def _dialect(self) -> ProviderProfile:
        codecs, client_codecs = self.hosted_tool_codecs, default_client_codecs()
        return ProviderProfile(PROVIDER, codecs, client_codecs, sorter_of, self.on_unsupported)

    def _answered(self, response: PromptResponse[O]) -> PromptResponse[O]:
        return log_runs(response)
