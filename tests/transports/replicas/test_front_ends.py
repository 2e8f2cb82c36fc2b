"""Front ends whose requests come to different replicas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.helpers.patience import PATIENCE
from tests.runtime.test_partial_reply import PIECES, HaltingBackend
from tests.transports.http.served_runtime import OWNERS, Served
from tests.transports.replicas.conftest import Pair, ReplicaHost
from tests.transports.replicas.followed_session import Follower, replicas
from tests.transports.replicas.test_attached_clients import RING
from toolcrib.embedded import BackendCallResult, BackendText, EmbeddedProvider, ProposedCall
from toolcrib.runtime import attached_clients

Json = dict[str, Any]
USER: Json = {"id": "m", "role": "user", "content": "Ring."}


async def run(host: ReplicaHost, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of a front end's request."""
    body: dict[str, Any] = {
        "threadId": "chat",
        "runId": f"run-{len(messages)}",
        "state": {},
        "messages": messages,
        "tools": [RING],
        "context": [],
        "forwardedProps": {},
    }
    headers = {"authorization": f"Bearer {OWNERS}", "accept": "text/event-stream"}
    async with httpx2.AsyncClient(base_url=host.server.url, timeout=PATIENCE) as client:
        answer = await client.post("/v1/ag-ui", json=body, headers=headers)
    if answer.status_code != 200:
        return [answer.json()]
    lines = answer.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def bring(messages: list[Json], events: list[Json]) -> bool:
    """Add the result of the call that the events show; False when they show none."""
    begun = [each["toolCallId"] for each in events if each["type"] == "TOOL_CALL_START"]
    if not begun:
        return False
    call: Json = {"id": begun[-1], "type": "function"}
    call["function"] = {"name": "ring", "arguments": "{}"}
    messages.append({"id": f"a{len(messages)}", "role": "assistant", "toolCalls": [call]})
    result = {"role": "tool", "toolCallId": begun[-1], "content": "x"}
    messages.append({"id": f"t{len(messages)}", **result})
    return True


def said(events: list[Json]) -> str:
    return "".join(each["delta"] for each in events if each["type"] == "TEXT_MESSAGE_CONTENT")


async def resumed(url: str) -> list[Json] | None:
    """The chunks for a page that is loaded again; None when no turn runs."""
    headers = {"authorization": f"Bearer {OWNERS}"}
    async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        answer = await client.get("/v1/ui-stream/chat/stream", headers=headers)
    if answer.status_code == 204:
        return None
    assert answer.status_code == 200, answer.text
    return chunks(answer.text)


def chunks(text: str) -> list[Json]:
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line)
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.parametrize("order", ["121", "122", "112"])
async def test_a_front_end_brings_its_results_to_any_replica(
    ringing_pair: Pair, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn goes on, wherever it runs and wherever its calls began to wait."""
    monkeypatch.setattr(attached_clients, "LOOK_SECONDS", 0.05)
    messages, events = [USER], list[Json]()
    for number in order:
        events = await run(ringing_pair.one if number == "1" else ringing_pair.two, messages)
        bring(messages, events)

    assert said(events) == "all rung", events
    listed = (await ringing_pair.two.ask("calls.list"))["calls"]
    assert [(each["tool"], each["status"]) for each in listed] == [("ring", "completed")] * 2


@pytest.mark.parametrize("is_sent_again", [False, True])
async def test_a_message_at_another_replica_does_not_end_the_turn_that_waits_for_the_page(
    ringing_pair: Pair, is_sent_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused as busy, and the call still waits. The same message, sent again, is shown the
    turn.
    """
    monkeypatch.setattr(attached_clients, "LOOK_SECONDS", 0.05)
    messages = [USER]
    if is_sent_again:
        await run(ringing_pair.one, messages)
    events = await run(ringing_pair.two if is_sent_again else ringing_pair.one, messages)
    assert bring(messages, events)

    other = {"id": "other", "role": "user", "content": "No."}
    (refused,) = await run(ringing_pair.one if is_sent_again else ringing_pair.two, [other])

    assert refused["error"]["kind"] == "busy"
    while bring(messages, events := await run(ringing_pair.one, messages)):
        pass
    assert said(events) == "all rung", events
    listed = (await ringing_pair.two.ask("calls.list"))["calls"]
    assert [(each["tool"], each["status"]) for each in listed] == [("ring", "completed")] * 2


async def test_a_page_that_comes_back_elsewhere_is_shown_the_call_that_waits_for_it(
    ringing_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream ends there, and not at a call that has its result; then none runs any more."""
    monkeypatch.setattr(attached_clients, "LOOK_SECONDS", 0.05)
    messages, seen = [USER], list[list[str]]()
    while bring(messages, await run(ringing_pair.one, messages)):
        async with asyncio.timeout(PATIENCE):
            shown = await resumed(ringing_pair.two.server.url)
        assert shown is not None
        assert shown[-1]["type"] == "finish"
        called = [each for each in shown if each["type"] == "tool-input-available"]
        ended = [each for each in shown if each["type"] == "tool-output-available"]
        assert len(called) == len(ended) + 1
        seen.append([each["toolName"] for each in called])

    assert seen == [["ring"], ["ring", "ring"]]
    assert await resumed(ringing_pair.two.server.url) is None


class CallingBackend:
    """A model that calls a tool before it says something."""

    name = "calling"
    is_scripted = False

    def __init__(self) -> None:
        self._halting = HaltingBackend()
        self.may_go_on = self._halting.may_go_on

    async def propose(self, request: Any) -> AsyncIterator[BackendText | ProposedCall]:
        if not any(isinstance(each, BackendCallResult) for each in request.history):
            yield ProposedCall("echo", '{"text": "x"}')
            return
        async for piece in self._halting.propose(request):
            yield piece

    async def aclose(self) -> None:
        pass


async def beginning(replica: Served, path: str, body: Json) -> asyncio.Task[httpx2.Response]:
    """A request that begins a turn, once the model has said something."""
    task = asyncio.ensure_future(replica.client.post(path, json=body))
    follower = Follower(replica, "chat")
    await follower.until(
        lambda: "".join(follower.texts("model.text_delta")) == PIECES[0] + PIECES[1]
    )
    await follower.leave()
    return task


@pytest.mark.parametrize("uses_hints", [True, False])
async def test_a_page_comes_back_at_any_replica_while_text_is_written(
    postgres_url: str, uses_hints: bool
) -> None:
    """It gets the turn from its start, and the rest while it is written; whoever leaves it again
    does not end it.
    """
    backend = HaltingBackend()
    adapter = EmbeddedProvider(backend).adapter()
    async with replicas(postgres_url) as pair:
        a = await pair.start(uses_hints=uses_hints, adapter=adapter)
        b = await pair.start(uses_hints=uses_hints, takes_turns=False)
        await a.session("chat")
        message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "go"}]}
        began = await beginning(a, "/v1/ui-stream", {"id": "chat", "messages": [message]})
        for leaves in (True, False):
            text = ""
            async with b.client.stream("GET", "/v1/ui-stream/chat/stream") as answer:
                assert answer.status_code == 200, await answer.aread()
                async for line in answer.aiter_lines():
                    for chunk in chunks(line):
                        text += chunk["delta"] if chunk["type"] == "text-delta" else ""
                    if text == PIECES[0] + PIECES[1]:
                        if leaves:
                            break
                        backend.may_go_on.set()
        whole = chunks((await began).text)
        over = await b.client.get("/v1/ui-stream/chat/stream")
    await adapter.aclose()

    assert text == "".join(PIECES)
    assert "".join(c["delta"] for c in whole if c["type"] == "text-delta") == text
    assert over.status_code == 204


async def test_an_agent_comes_back_at_any_replica_while_text_is_written(postgres_url: str) -> None:
    """A run of AG-UI that brings nothing new is shown the turn that runs, from its start."""
    backend = CallingBackend()
    adapter = EmbeddedProvider(backend).adapter()
    async with replicas(postgres_url) as pair:
        a = await pair.start(adapter=adapter)
        b = await pair.start(takes_turns=False, adapter=adapter)
        await a.session("chat")
        rest: Json = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
        body: Json = {"threadId": "chat", "runId": "r1", "messages": [USER], **rest}
        began = await beginning(a, "/v1/ag-ui", body)
        partial = {"id": "x", "role": "assistant", "content": "The f"}
        again = {**body, "runId": "r2", "messages": [USER, partial]}
        events = list[Json]()
        async with b.client.stream("POST", "/v1/ag-ui", json=again) as answer:
            async for line in answer.aiter_lines():
                events += chunks(line)
                if said(events) == PIECES[0] + PIECES[1]:
                    backend.may_go_on.set()
        whole = chunks((await began).text)
    await adapter.aclose()

    for each in (whole, events):
        assert said(each) == "".join(PIECES)
        called = [event["toolCallName"] for event in each if event["type"] == "TOOL_CALL_START"]
        assert called == ["echo"]
