"""What a server's author adds: resources, prompts, completions, and handlers that talk back."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListRootsRequest,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)

from tests.transports.mcp.connected_client import (
    ERAS,
    HANDSHAKE,
    STATELESS,
    TEXT,
    Bench,
    connected,
    text_of,
)
from toolcrib.host_tools import HostToolDefinition, ToolContext
from toolcrib.transports.mcp import McpServer, current_request

each_era = pytest.mark.parametrize("era", ERAS)
PIXEL = "iVBORw0KGgo="


def host_tool(handler: Any) -> HostToolDefinition:
    return HostToolDefinition(handler.__name__, "A tool that talks back.", TEXT, handler)


async def draw(input: dict[str, Any], context: ToolContext) -> str:
    request = current_request()
    if request is None:
        return "nobody to show it to"
    picture = ImageContent(type="image", data=PIXEL, mime_type="image/png")
    request.answer(CallToolResult(content=[picture]))
    return "a picture"


async def failing_draw(input: dict[str, Any], context: ToolContext) -> str:
    request = current_request()
    assert request is not None
    request.answer(CallToolResult(content=[]))
    raise ValueError("out of ink")


async def chat(input: dict[str, Any], context: ToolContext) -> str:
    request = current_request()
    assert request is not None
    await request.log("info", "asking", logger="chat")
    asked = SamplingMessage(role="user", content=TextContent(type="text", text=input["text"]))
    said = await request.sample(CreateMessageRequestParams(messages=[asked], max_tokens=10))
    agreed = await request.elicit("Agreed?", {"type": "object", "properties": {}})
    assert isinstance(said.content, TextContent)
    return f"{said.content.text}, {agreed.action}"


def plain(input: dict[str, Any], context: ToolContext) -> str:
    request = current_request()
    return "nobody" if request is None else request.params.name


async def needy(input: dict[str, Any], context: ToolContext) -> str:
    request = current_request()
    assert request is not None
    if request.params.input_responses is None:
        roots = ListRootsRequest()
        wanted = InputRequiredResult(input_requests={"roots": roots}, request_state="first")
        request.answer(wanted)
        return "asked for roots"
    return f"state {request.params.request_state}"


def extended(server: McpServer) -> None:
    async def list_resources(ctx: Any, params: PaginatedRequestParams) -> ListResourcesResult:
        return ListResourcesResult(resources=[Resource(uri="shop://stock", name="stock")])

    async def read(ctx: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
        if params.uri != "shop://stock":
            raise MCPError(-32602, "Resource not found")
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text="7 saws")])

    async def list_prompts(ctx: Any, params: PaginatedRequestParams) -> ListPromptsResult:
        return ListPromptsResult(prompts=[Prompt(name="greet")])

    async def get_prompt(ctx: Any, params: GetPromptRequestParams) -> GetPromptResult:
        text = TextContent(type="text", text=f"Say {params.name}.")
        return GetPromptResult(messages=[PromptMessage(role="user", content=text)])

    async def complete(ctx: Any, params: CompleteRequestParams) -> CompleteResult:
        return CompleteResult(completion=Completion(values=[params.argument.value + "lo"]))

    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read)
    server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", CompleteRequestParams, complete)


@each_era
class TestHandlersOfTheAuthor:
    async def test_resources_prompts_and_completions_are_the_authors(self, era: str) -> None:
        """The SDK's own types and methods, on the same server as the tools."""
        async with connected(era) as bench:
            extended(bench.server)
            client = bench.client
            (resource,) = (await client.list_resources()).resources
            (stock,) = (await client.read_resource("shop://stock")).contents
            (prompt,) = (await client.list_prompts()).prompts
            said = await client.get_prompt("greet")
            reference = PromptReference(type="ref/prompt", name="greet")
            completed = await client.complete(reference, {"name": "x", "value": "hel"})

        assert resource.uri == "shop://stock"
        assert isinstance(stock, TextResourceContents)
        assert stock.text == "7 saws"
        assert prompt.name == "greet"
        assert isinstance(said.messages[0].content, TextContent)
        assert completed.completion.values == ["hello"]

    async def test_a_fault_of_the_author_is_told_without_its_text(
        self, era: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What nobody foresaw may hold what clients must not see; the log has it."""

        async def list_prompts(ctx: Any, params: PaginatedRequestParams) -> ListPromptsResult:
            raise ValueError("the password is swordfish")

        async with connected(era) as bench:
            bench.server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
            with pytest.raises(MCPError, match="prompts/list failed") as caught:
                await bench.client.list_prompts()

        assert caught.value.code == -32603
        assert "swordfish" not in str(caught.value.error)
        assert "swordfish" in caplog.text

    async def test_artifacts_stay_readable_beside_them(self, era: str) -> None:
        """An author's resources do not hide the results that were too long."""

        async def long(input: dict[str, Any], context: ToolContext) -> str:
            return "x" * 200_000

        async with connected(era, host_tool(long)) as bench:
            extended(bench.server)
            link = (await bench.call("long")).content[1]
            assert link.type == "resource_link"
            (whole,) = (await bench.client.read_resource(link.uri)).contents

        assert isinstance(whole, TextResourceContents)
        assert len(whole.text) == 200_000

    async def test_a_handler_may_answer_in_the_words_of_mcp(self, era: str) -> None:
        """Pictures, sounds and resources go to the client; the ledger keeps what was returned."""
        async with connected(era, host_tool(draw)) as bench:
            result = await bench.call("draw")
            ended = await _ended(bench)

        assert [each.type for each in result.content] == ["image"]
        assert ended["value"] == "a picture"

    async def test_a_handler_that_fails_has_not_answered(self, era: str) -> None:
        """What it meant to say before it failed is not passed off as its result."""
        async with connected(era, host_tool(failing_draw)) as bench:
            result = await bench.call("failing_draw")

        assert result.is_error
        assert "out of ink" in text_of(result)

    async def test_a_handler_in_a_thread_finds_its_request(self, era: str) -> None:
        """R6: plain functions run elsewhere, and are told the same."""
        async with connected(era, host_tool(plain)) as bench:
            result = await bench.call("plain")

        assert text_of(result) == "plain"

    async def test_a_call_from_elsewhere_has_no_request(self, era: str) -> None:
        """R36: the same tool, called without MCP, is not given somebody else's client."""
        async with connected(era, host_tool(draw)) as bench:
            await bench.call("draw")
            (session,) = (await bench.runtime.ask("session.list")).sessions
            asked = {"session_id": session.session_id, "name": "draw", "arguments": {"text": "x"}}
            result = await bench.runtime.ask("tools.call", asked)

        assert result.text == "nobody to show it to"


class TestTalkingBack:
    async def test_a_handler_logs_samples_and_elicits(self) -> None:
        """With a connection, a handler can ask the client while it runs."""
        logs: list[Any] = []

        async def sample(context: Any, params: Any) -> CreateMessageResult:
            text = TextContent(type="text", text="yes, said the model")
            return CreateMessageResult(role="assistant", content=text, model="scripted")

        async def agree(context: Any, params: Any) -> ElicitResult:
            return ElicitResult(action="accept", content={})

        async def log(params: Any) -> None:
            logs.append((params.level, params.data, params.logger))

        async with connected(
            HANDSHAKE,
            host_tool(chat),
            sampling_callback=sample,
            elicitation_callback=agree,
            logging_callback=log,
        ) as bench:
            result = await bench.call("chat")

        assert text_of(result) == "yes, said the model, accept"
        assert logs == [("info", "asking", "chat")]

    async def test_without_a_connection_a_handler_asks_by_its_answer(self) -> None:
        """The client calls again with what was asked for, and the sealed state comes back open."""
        from mcp_types import ListRootsResult

        async def roots(context: Any) -> ListRootsResult:
            return ListRootsResult(roots=[])

        async with connected(STATELESS, host_tool(needy), list_roots_callback=roots) as bench:
            result = await bench.call("needy")

        assert text_of(result) == "state first"

    async def test_the_author_tells_of_changes_of_their_own(self) -> None:
        """What is published reaches who listens."""
        async with (
            connected(STATELESS) as bench,
            bench.client.listen(
                resources_list_changed=True, resource_subscriptions=["shop://stock"]
            ) as changes,
        ):
            await bench.server.publish(ResourcesListChanged())
            await bench.server.publish(ResourceUpdated("shop://stock"))
            heard = aiter(changes)
            told = [await anext(heard), await anext(heard)]

        assert told == [ResourcesListChanged(), ResourceUpdated("shop://stock")]


async def _ended(bench: Bench) -> Any:
    (session,) = (await bench.runtime.ask("session.list")).sessions
    events = (await bench.runtime.ask("events.list", {"session_id": session.session_id})).events
    (ended,) = [each["data"] for each in events if each["kind"] == "tool.invoked"]
    return ended
