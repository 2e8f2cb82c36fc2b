"""The tools that OpenAI defines and this process runs, and one call through the whole path."""

from typing import Any

from tests.adapters.openai.response_samples import fixture
from toolcrib import Executor, Outcome, Session
from toolcrib.adapters.openai.codecs.apply_patch import OpenAIApplyPatchCodec
from toolcrib.adapters.openai.codecs.handler_shell import OpenAIHandlerShellCodec
from toolcrib.adapters.openai.codecs.legacy_shell import OpenAILegacyShellCodec
from toolcrib.adapters.openai.codecs.tool_search import OpenAIHandlerToolSearchCodec
from toolcrib.adapters.tool_calls import ClientCall, ClientCodec
from toolcrib.toolkits.apply_patch import ApplyPatchConfig, apply_patch_tool
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.shell import (
    CommandOutput,
    LegacyShellParams,
    ShellParams,
    ShellResult,
    handler_shell_tool,
    legacy_shell_tool,
)
from toolcrib.tools.tool_search import (
    FoundTool,
    ToolQuery,
    ToolSearchResult,
    handler_tool_search_tool,
)

PATCH = OpenAIApplyPatchCodec()
SHELL = OpenAIHandlerShellCodec()
LEGACY = OpenAILegacyShellCodec()
SEARCH = OpenAIHandlerToolSearchCodec()

ITEMS = {item["call_id"]: item for item in fixture("client_calls")}


def echo(params: ShellParams) -> ShellResult:
    return ShellResult(tuple(CommandOutput(f"{each}\n", "", 0) for each in params.commands))


def echo_words(params: LegacyShellParams) -> CommandOutput:
    return CommandOutput(" ".join(params.command) + "\n", "", 0)


def find(params: ToolQuery) -> ToolSearchResult:
    return ToolSearchResult(tuple(FoundTool(query) for query in params.queries))


TOOLS: dict[ClientCodec, ProviderTool[Any, Any, Any]] = {
    PATCH: apply_patch_tool(ApplyPatchConfig("/nowhere"), requires_approval=False),
    SHELL: handler_shell_tool(echo, requires_approval=False),
    LEGACY: legacy_shell_tool(echo_words, requires_approval=False),
    SEARCH: handler_tool_search_tool(find),
}
BOTH = list(TOOLS.items())


def call_of(codec: ClientCodec, item: dict[str, Any]) -> ClientCall:
    call = codec.call(item, TOOLS[codec].name)
    assert call is not None
    return call


def answer(codec: ClientCodec, call: ClientCall, outcome: Outcome) -> dict[str, Any]:
    failure = outcome.failure.kind if outcome.failure else None
    item = codec.output_item(
        call, outcome.text, success=outcome.ok, value=outcome.value, failure=failure
    )
    assert item["call_id"] == call.call_id
    return item


async def run(
    codec: ClientCodec, item: dict[str, Any], tool: ProviderTool[Any, Any, Any] | None = None
) -> dict[str, Any]:
    """The answer to an item whose call took the whole path."""
    chosen = tool or TOOLS[codec]
    call = codec.call(item, chosen.name)
    assert call is not None
    executor = Executor(Session(), [chosen])
    return answer(
        codec, call, await executor.call(call.tool_name, call.arguments, call_id=call.call_id)
    )
