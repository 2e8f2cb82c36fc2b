"""`mcp`: real servers on loopback, in both eras of the protocol, called by the provider."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.responses import Response

from tests.embedded.scripted_provider import Puppet, Script, served
from tests.helpers.child_process import child_process
from tests.mcp_client.mounted_servers import Era, free_port
from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)

PEER = Path(__file__).parent / "mcp_peer.py"
TOKEN = "s3cr3t-token-of-the-desk"
KEY = "another-key-in-a-header"


@contextmanager
def desk(era: Era) -> Generator[dict[str, Any]]:
    """A server that runs; how a request names it."""
    port = free_port()
    with child_process([sys.executable, str(PEER), str(port), era]) as process:
        process.stderr.next_line(containing="Uvicorn running")
        yield {
            "type": "mcp",
            "server_label": "desk",
            "server_url": f"http://127.0.0.1:{port}/mcp",
            "authorization": TOKEN,
            "headers": {"x-api-key": KEY},
            "require_approval": "never",
        }


@pytest.fixture(scope="module", params=["newer", "older"])
def server(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    with desk(request.param) as config:
        yield config


def calls(name: str, arguments: dict[str, Any] | None = None) -> Script:
    """A backend that makes one call for each request, and then says what it was told."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        last = request.history[-1]
        if isinstance(last, BackendCallResult):
            return [BackendText(last.text)]
        return [ProposedCall(f"desk__{name}", json.dumps(arguments or {}))]

    return script


async def create(client: AsyncOpenAI, config: Any, given: Any = "go", **more: Any) -> Response:
    asked: Any = {"model": "puppet", "input": given, "tools": [config], **more}
    responses: Any = client.responses
    return await responses.create(**asked)


def types(response: Response) -> list[str]:
    return [item.type for item in response.output]


def one(response: Response, kind: str) -> Any:
    [item] = [item for item in response.output if item.type == kind]
    return item


async def test_tools_are_listed_once_in_a_conversation_and_called(server: dict[str, Any]) -> None:
    """The list is an item of the first response; later ones take it from the conversation."""
    async with served(calls("look", {"number": 4})) as (client, puppet):
        first = await create(client, server)
        second = await create(client, server, "again", previous_response_id=first.id)
    assert types(first) == ["mcp_list_tools", "mcp_call", "message"]
    assert types(second) == ["mcp_call", "message"]
    listed = one(first, "mcp_list_tools")
    assert [tool.name for tool in listed.tools] == ["look", "send", "fail", "whoami", "asked"]
    assert listed.tools[0].annotations == {"readOnlyHint": True}
    call = one(first, "mcp_call")
    assert (call.name, call.server_label, call.status) == ("look", "desk", "completed")
    assert json.loads(call.output) == {"number": 4, "from": "Ada"}
    tool = puppet.requests[0].tools[0]
    assert (tool.name, tool.description) == ("desk__look", "Look at a letter.")
    assert "number" in tool.parameters["properties"]


async def test_the_stream_tells_of_listing_and_calling(server: dict[str, Any]) -> None:
    """The official events, in the order in which OpenAI sends them."""
    async with served(calls("send", {"to": "Bo"})) as (client, _):
        tools: Any = [server]
        stream = await client.responses.create(model="puppet", input="go", tools=tools, stream=True)
        kinds = [event.type async for event in stream if "mcp" in event.type]
    assert kinds == [
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
    ]


async def sent(client: AsyncOpenAI, puppet: Puppet, config: Any, **more: Any) -> int:
    """How many letters the server has sent so far."""
    puppet.script = calls("asked")
    counted = await create(client, config, "count", **more)
    return json.loads(one(counted, "mcp_call").output)["sent"]


async def pending(client: AsyncOpenAI, config: Any) -> tuple[Response, Any]:
    asked = await create(client, {**config, "require_approval": "always"})
    return asked, one(asked, "mcp_approval_request")


def decision(request: Any, *, approve: bool, **more: Any) -> list[Any]:
    answer = {"approval_request_id": request.id, "approve": approve, **more}
    return [{"type": "mcp_approval_response", **answer}]


async def test_an_approved_call_runs_in_the_next_response(server: dict[str, Any]) -> None:
    """Nothing runs before the yes, and with it once."""
    always = {**server, "require_approval": "always"}
    async with served(calls("asked")) as (client, puppet):
        before = await sent(client, puppet, server)
        puppet.script = calls("send", {"to": "Bo"})
        first, request = await pending(client, server)
        assert types(first) == ["mcp_list_tools", "mcp_approval_request"]
        assert (request.name, json.loads(request.arguments)) == ("send", {"to": "Bo"})
        yes = decision(request, approve=True)
        second = await create(client, always, yes, previous_response_id=first.id)
        after = await sent(client, puppet, server, previous_response_id=second.id)
    assert types(second) == ["mcp_call", "message"]
    assert one(second, "mcp_call").approval_request_id == request.id
    assert second.output_text == "sent to Bo"
    assert after == before + 1


async def test_a_denied_call_never_runs_and_the_backend_hears_why(server: dict[str, Any]) -> None:
    """The no is told where it was said, now and in every later response."""
    always = {**server, "require_approval": "always"}
    async with served(calls("asked")) as (client, puppet):
        before = await sent(client, puppet, server)
        puppet.script = calls("send", {"to": "Bo"})
        first, request = await pending(client, server)
        no = decision(request, approve=False, reason="too late")
        second = await create(client, always, no, previous_response_id=first.id)
        assert second.output_text == "The user denied this call: too late"
        after = await sent(client, puppet, server, previous_response_id=second.id)
    assert after == before
    turns = puppet.requests[-1].history
    told = [turn.text for turn in turns if isinstance(turn, BackendCallResult)]
    assert told[0] == "The user denied this call: too late"
    assert isinstance(turns[-3], BackendMessage)
    assert turns[-3].text == "count"


@pytest.mark.parametrize(
    ("approval", "needs"),
    [
        (None, True),
        ("always", True),
        ("never", False),
        ({"never": {"tool_names": ["send"]}}, False),
        ({"never": {"tool_names": ["look"]}}, True),
        ({"always": {"tool_names": ["send"]}}, True),
        ({"always": {"tool_names": ["look"]}}, True),
    ],
)
async def test_who_has_to_approve(server: dict[str, Any], approval: Any, needs: bool) -> None:
    """Whatever is not said needs approval."""
    async with served(calls("send", {"to": "Bo"})) as (client, _):
        response = await create(client, {**server, "require_approval": approval})
    expected = "mcp_approval_request" if needs else "mcp_call"
    assert types(response)[1] == expected


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (["send"], ["send"]),
        ({"tool_names": ["look", "fail"]}, ["look", "fail"]),
        ({"read_only": True}, ["look"]),
        ([], []),
    ],
)
async def test_only_allowed_tools_are_offered(
    server: dict[str, Any], allowed: Any, names: list[str]
) -> None:
    """A tool that is not allowed is not listed, not offered and not called."""
    async with served(calls("whoami")) as (client, puppet):
        response = await create(client, {**server, "allowed_tools": allowed})
    assert [tool.name for tool in one(response, "mcp_list_tools").tools] == names
    assert [each.name for each in puppet.requests[0].tools] == [f"desk__{n}" for n in names]
    assert "mcp_call" not in types(response)
    assert "There is no tool" in response.output_text


async def test_a_tool_that_fails_is_told_without_its_secrets(server: dict[str, Any]) -> None:
    """The item has the error, the backend hears it, and the key is not in it."""
    async with served(calls("fail")) as (client, _):
        response = await create(client, server)
    call = one(response, "mcp_call")
    assert call.status == "failed"
    assert call.output is None
    assert call.error.type == "mcp_tool_execution_error"
    assert "no stamps for" in str(call.error.content)
    assert "no stamps for" in response.output_text
    assert TOKEN not in response.model_dump_json()


async def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The response goes on without its tools, and says what is missing."""
    address = f"http://127.0.0.1:{free_port()}/mcp"
    config = {"type": "mcp", "server_label": "desk", "server_url": address}
    async with served(lambda request: [BackendText("alone")]) as (client, puppet):
        response = await create(client, config)
    assert types(response) == ["mcp_list_tools", "message"]
    assert one(response, "mcp_list_tools").error
    assert puppet.requests[0].tools == []


async def test_a_server_that_dies_between_listing_and_calling(server: dict[str, Any]) -> None:
    """The call fails with a protocol error, and the backend hears of it."""
    async with served(calls("look", {"number": 1})) as (client, _):
        first = await create(client, server)
        gone = {**server, "server_url": f"http://127.0.0.1:{free_port()}/mcp"}
        response = await create(client, gone, "again", previous_response_id=first.id)
    call = one(response, "mcp_call")
    assert (call.status, call.error.type) == ("failed", "mcp_protocol_error")
    assert response.output_text.startswith("The call failed: ")


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


async def test_no_secret_is_stored_or_shown(server: dict[str, Any], tmp_path: Path) -> None:
    """Tokens and headers are in no file of the provider, no item, and no answer of the server."""
    puppet = Puppet(calls("whoami"))
    egress = ["127.0.0.1"]
    async with EmbeddedProvider(puppet, data=tmp_path, allow_egress=egress) as provider:
        client = provider.client()
        response = await create(client, server)
        shown = (await client.responses.retrieve(response.id)).model_dump_json()
        items = (await client.responses.input_items.list(response.id)).model_dump_json()
    texts = [response.model_dump_json(), shown, items, repr(puppet.requests)]
    files = contents(tmp_path)
    assert "you came with" in response.output_text
    assert files
    for secret in (TOKEN, KEY):
        assert not any(secret in text for text in texts)
        assert not any(secret.encode() in data for data in files)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"server_label": None}, "tools[0].server_label"),
        ({"server_url": "file:///etc/passwd"}, "tools[0].server_url"),
        ({"server_url": None, "connector_id": "connector_gmail"}, "tools[0].connector_id"),
        ({"require_approval": "sometimes"}, "tools[0].require_approval"),
        ({"allowed_tools": [1]}, "tools[0].allowed_tools"),
        ({"headers": {"a": 1}}, "tools[0].headers"),
    ],
)
async def test_a_wrong_configuration_is_refused_before_anything_is_asked(
    wrong: dict[str, Any], param: str
) -> None:
    """The error names the member, and repeats no secret."""
    config = {"type": "mcp", "server_label": "desk", "server_url": "https://desk.example"}
    asked = {**config, "authorization": TOKEN, **wrong}
    async with served(calls("look")) as (client, puppet):
        with pytest.raises(BadRequestError) as failed:
            await create(client, asked)
    assert failed.value.param == param
    assert TOKEN not in str(failed.value)
    assert puppet.requests == []


@pytest.mark.parametrize(
    "item",
    [
        {"type": "mcp_list_tools", "server_label": "x"},
        {"type": "mcp_list_tools", "server_label": "x", "tools": [5, {"name": "a"}]},
        {"type": "mcp_approval_request", "server_label": "x"},
        {"type": "mcp_approval_response", "approval_request_id": ["a"], "approve": True},
    ],
)
async def test_items_that_a_caller_made_up_fail_nothing(item: dict[str, Any]) -> None:
    """An item of another form than ours is no tool, no approval and no error of the provider."""
    listed: Any = {"type": "mcp_list_tools", "server_label": "x", "tools": []}
    config: Any = {"type": "mcp", "server_label": "x", "server_url": "http://127.0.0.1:9"}
    async with served(lambda _: [BackendText("well")]) as (client, _):
        items: Any = [{"role": "user", "content": "go"}, item, listed]
        response = await client.responses.create(model="puppet", input=items, tools=[config])
    assert (response.status, response.output_text) == ("completed", "well")


async def test_a_filter_that_is_none_is_refused() -> None:
    """It is the request's fault, and says where."""
    config: Any = {"type": "mcp", "server_label": "x", "server_url": "http://127.0.0.1:9"}
    config["require_approval"] = {"never": 5}
    async with served(lambda _: [BackendText("well")]) as (client, _):
        with pytest.raises(BadRequestError, match="filter"):
            await client.responses.create(model="puppet", input="go", tools=[config])
