"""Many at once, broken disks, and requests that nobody would write."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai import InternalServerError

from tests.embedded.scripted_provider import Puppet, served
from toolcrib.embedded import (
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
)
from toolcrib.embedded.database import Database
from toolcrib.embedded.images import ChartImages

KEYS = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "text",
    "previous_response_id",
    "include",
    "metadata",
    "max_output_tokens",
    "max_tool_calls",
    "temperature",
    "parallel_tool_calls",
    "store",
    "stream",
    "background",
    "reasoning",
    "conversation",
    "truncation",
    "moderation",
    "top_logprobs",
    "client_metadata",
    "colour",
]
WORDS = [
    "puppet",
    "message",
    "user",
    "function",
    "custom",
    "web_search",
    "file_search",
    "code_interpreter",
    "shell",
    "mcp",
    "auto",
    "required",
    "allowed_tools",
    "function_call",
    "function_call_output",
    "item_reference",
    "compaction",
    "reasoning",
    "mcp_approval_response",
    "shell_call_output",
    "namespace",
    "tool_search",
    "apply_patch",
    "image_generation",
    "custom_tool_call",
    "apply_patch_call",
    "apply_patch_call_output",
    "tool_search_call",
    "tool_search_output",
    "additional_tools",
    "image_generation_call",
    "input_file",
    "input_image",
    "client",
    "server",
    "json_schema",
    "resp_1",
    "\ud800",
    "",
]
FIELDS = [
    *KEYS,
    "type",
    "role",
    "content",
    "id",
    "call_id",
    "name",
    "arguments",
    "output",
    "format",
    "schema",
    "container",
    "environment",
    "vector_store_ids",
    "server_label",
    "server_url",
    "encrypted_content",
    "filters",
    "mode",
    "namespace",
    "execution",
    "operation",
    "allowed_callers",
    "defer_loading",
    "file_id",
    "file_data",
    "filename",
    "image_url",
    "size",
    "policy",
]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=12,
)
BODIES: st.SearchStrategy[Any] = VALUES | st.dictionaries(
    st.sampled_from(KEYS), VALUES, max_size=6
).map(lambda more: {"model": "puppet", "input": "x", **more})
PATHS = st.sampled_from(
    [
        "/responses",
        "/responses/compact",
        "/responses/input_tokens",
        "/vector_stores",
        "/containers",
    ]
)


def echo(request: BackendRequest) -> Sequence[BackendOutput]:
    last = request.history[-1]
    return [BackendText(last.text if isinstance(last, BackendMessage) else "ok")]


@pytest.fixture(scope="module")
def post() -> Any:
    """Sends bytes to one provider, over and over, and gives the status and the answer."""
    from httpx2 import Client

    from toolcrib.embedded.client import BASE_URL, InProcessSyncTransport

    with EmbeddedProvider(Puppet(echo), images=ChartImages()) as provider:
        portal = provider._started_portal()  # pyright: ignore[reportPrivateUsage]
        with Client(
            transport=InProcessSyncTransport(provider.app, portal), base_url=BASE_URL
        ) as client:

            def send(path: str, body: bytes) -> tuple[int, str]:
                headers = {"content-type": "application/json"}
                answer = client.post(path, content=body, headers=headers)
                return answer.status_code, answer.text

            yield send


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(path=PATHS, body=BODIES)
def test_no_request_breaks_the_provider(
    post: Callable[[str, bytes], tuple[int, str]], path: str, body: Any
) -> None:
    """Whatever is sent is answered, or refused with a message; the provider never fails."""
    status, text = post(path, json.dumps(body).encode())
    assert status < 500, text
    if status >= 400:
        assert json.loads(text)["error"]["message"]


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=st.binary(max_size=40))
def test_bytes_that_are_no_json_are_refused(
    post: Callable[[str, bytes], tuple[int, str]], body: bytes
) -> None:
    """With a status of the client's own fault."""
    status, _ = post("/responses", body)
    assert 400 <= status < 500


def test_a_body_that_is_nested_too_deep_is_refused(
    post: Callable[[str, bytes], tuple[int, str]],
) -> None:
    """It ends neither the request nor the process."""
    deep = b"[" * 100_000 + b"]" * 100_000
    for body in (deep, b'{"model": "puppet", "input": ' + deep + b"}"):
        assert post("/responses", body)[0] == 400


async def test_many_responses_at_once_do_not_mix() -> None:
    """A hundred, blocking, streamed and in the background: each has its own answer."""
    async with served(echo) as (client, _):
        create: Any = client.responses.create

        async def ask(number: int) -> str:
            asked: Any = {"model": "puppet", "input": f"n{number}"}
            if number % 3 == 0:
                return (await create(**asked)).output_text
            asked |= {"background": True} if number % 3 == 1 else {}
            stream = await create(**asked, stream=True)
            events = [event async for event in stream]
            return events[-1].response.output_text

        heard = await asyncio.gather(*map(ask, range(100)))
    assert heard == [f"n{number}" for number in range(100)]


class BreakingDatabase(Database):
    """A disk that fills up, or takes its time."""

    is_full = False
    is_slow: asyncio.Event | None = None

    async def ask(self, work: Any) -> Any:
        if self.is_slow is not None:
            await self.is_slow.wait()
        return await super().ask(work)

    def ask_now(self, work: Any) -> Any:
        if self.is_full:
            raise sqlite3.OperationalError("database or disk is full")
        return super().ask_now(work)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> type[BreakingDatabase]:
    monkeypatch.setattr("toolcrib.embedded.provider.Database", BreakingDatabase)
    monkeypatch.setattr(BreakingDatabase, "is_full", False)
    monkeypatch.setattr(BreakingDatabase, "is_slow", None)
    return BreakingDatabase


async def test_a_response_that_cannot_be_kept_is_not_told_as_done(
    disk: type[BreakingDatabase],
) -> None:
    """Nobody could go on from it: it fails, and says why without what is inside."""

    def fills(request: BackendRequest) -> Sequence[BackendOutput]:
        disk.is_full = True
        return [BackendText("done")]

    async with served(fills) as (client, _):
        stream = await client.responses.create(model="puppet", input="a", stream=True)
        events: list[Any] = [event async for event in stream]
        disk.is_full = False
    assert events[-1].type == "response.failed"
    assert "could not be stored" in events[-1].response.error.message


async def test_a_response_is_kept_before_it_is_told_as_done(disk: type[BreakingDatabase]) -> None:
    """Whoever reads that it is completed may go on from it in the same instant."""
    is_kept, is_said = asyncio.Event(), asyncio.Event()

    def slows(request: BackendRequest) -> Sequence[BackendOutput]:
        disk.is_slow = is_kept
        return [BackendText("done")]

    async with served(slows) as (client, _):
        stream = await client.responses.create(model="puppet", input="a", stream=True)
        kinds: list[str] = []

        async def read() -> None:
            async for event in stream:
                kinds.append(event.type)
                if event.type == "response.output_item.done":
                    is_said.set()

        reading = asyncio.create_task(read())
        await is_said.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert kinds[-1] == "response.output_item.done"
        is_kept.set()
        await reading
    assert kinds[-1] == "response.completed"


async def test_a_request_that_cannot_be_kept_is_refused(disk: type[BreakingDatabase]) -> None:
    """The backend is not asked for what would be lost, and afterwards all is well."""
    async with served(echo) as (client, puppet):
        disk.is_full = True
        with pytest.raises(InternalServerError, match="see its log"):
            await client.responses.create(model="puppet", input="a")
        disk.is_full = False
        assert puppet.requests == []
        assert (await client.responses.create(model="puppet", input="a")).output_text == "a"


async def test_closing_stops_what_is_being_made_and_keeps_it(tmp_path: Any) -> None:
    """Nothing is left that says it were still in progress."""
    begun = asyncio.Event()

    class Endless(Puppet):
        async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
            yield BackendText("half")
            begun.set()
            await asyncio.Event().wait()

    async with EmbeddedProvider(Endless(echo), data=tmp_path) as provider:
        client = provider.client()
        made = await client.responses.create(model="puppet", input="a", background=True)
        await begun.wait()
    async with EmbeddedProvider(Puppet(echo), data=tmp_path) as provider:
        found = await provider.client().responses.retrieve(made.id)
    assert (found.status, found.output_text) == ("cancelled", "half")
