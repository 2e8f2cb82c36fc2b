"""AG-UI's own agent works against a served runtime. It checks every event and their order."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from tests.adapters.openai.scripted_provider import Events, call, events_of, message, response
from tests.node.peers import needs_node
from tests.transports.http.frontends.chat_host import (
    ADA,
    BOB,
    LEAD,
    ChatHost,
    chat_host,
    seen_approval,
)
from tests.transports.http.frontends.frontend_client import FrontendClient, Json, frontend_client

pytestmark = needs_node
DONE = response(message("All is well with the till."))
GUARDED = (response(call("guarded", {"name": "Bob"})), DONE)


@pytest.fixture(scope="module")
def browser() -> Generator[FrontendClient]:
    """One process for all tests: starting it takes longer than they do."""
    with frontend_client() as client:
        yield client


async def open_agent(
    browser: FrontendClient, host: ChatHost, name: str, token: str = ADA, **more: Any
) -> None:
    await browser.ask("agent.open", name, url=host.url, token=token, **more)


def kinds(run: Json) -> list[str]:
    """The types of the events of a run, without the custom ones."""
    return [each["type"] for each in run["events"] if each["type"] != "CUSTOM"]


def roles(run: Json) -> list[str]:
    return [each["role"] for each in run["messages"]]


async def test_text_streams_into_a_message(browser: FrontendClient) -> None:
    """A run has a step with a text that comes in pieces, and ends with what it took."""
    async with chat_host(DONE) as host:
        await open_agent(browser, host, "text")
        run = await browser.ask("agent.run", "text", text="How is the till?", runId="run-1")

    assert kinds(run) == [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
    last = run["events"][-1]
    assert (last["threadId"], last["runId"]) == ("text", "run-1")
    assert last["usage"] == [{"inputTokens": 10, "outputTokens": 5}]
    assert run["messages"][-1]["content"] == "All is well with the till."
    assert run["fault"] is None


async def test_reasoning_is_a_message_of_its_own(browser: FrontendClient) -> None:
    """The visible reasoning of a model comes before its text."""
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Tills jam."}],
    }
    events = events_of(response(thought, message("Look inside.")))
    async with chat_host(Events([each for each in events if "delta" not in each["type"]])) as host:
        await open_agent(browser, host, "thought")
        run = await browser.ask("agent.run", "thought", text="Why?")

    assert [(each["role"], each["content"]) for each in run["messages"]] == [
        ("user", "Why?"),
        ("reasoning", "Tills jam."),
        ("assistant", "Look inside."),
    ]


async def test_a_call_has_arguments_progress_and_a_result(browser: FrontendClient) -> None:
    """The call and its result are messages; its progress is a custom event."""
    async with chat_host(response(call("greet", {"name": "Ada"})), DONE) as host:
        await open_agent(browser, host, "call")
        run = await browser.ask("agent.run", "call", text="Greet Ada.")

    _, asked, result, answer = run["messages"]
    assert asked["toolCalls"][0]["function"] == {"name": "greet", "arguments": '{"name": "Ada"}'}
    assert (result["role"], result["toolCallId"]) == ("tool", asked["toolCalls"][0]["id"])
    assert (result["content"], answer["content"]) == ("Hello, Ada!", "All is well with the till.")
    progress = [e["value"] for e in run["events"] if e.get("name") == "toolcrib.tool_progress"]
    assert [(each["current"], each["message"]) for each in progress] == [(1, "half of it")]


async def test_a_failed_call_says_so(browser: FrontendClient) -> None:
    """Its result is what the model reads, marked as a failure."""
    async with chat_host(response(call("broken", {"name": "Ada"})), DONE) as host:
        await open_agent(browser, host, "broken")
        run = await browser.ask("agent.run", "broken", text="Try.")

    (result,) = [each for each in run["events"] if each["type"] == "TOOL_CALL_RESULT"]
    assert "the till is jammed" in result["content"]
    assert result["metadata"] == {"error": "failed", "kind": "tool_error"}


async def test_an_approval_is_an_interrupt_and_its_answer_resumes(browser: FrontendClient) -> None:
    """The run ends with the interrupt, and the next one takes the answer."""
    async with chat_host(*GUARDED) as host:
        await open_agent(browser, host, "approve")
        waiting = await browser.ask("agent.run", "approve", text="Greet Bob.")
        (interrupt,) = waiting["interrupts"]
        greeted_before = list(host.tools.greeted)
        entry = {
            "interruptId": interrupt["id"],
            "status": "resolved",
            "payload": {"approved": True, "digest": interrupt["metadata"]["digest"]},
        }
        run = await browser.ask("agent.run", "approve", resume=[entry])

        assert (greeted_before, host.tools.greeted) == ([], ["Bob"])
    assert waiting["events"][-1]["outcome"]["type"] == "interrupt"
    assert interrupt["metadata"]["arguments"] == {"name": "Bob"}
    assert run["interrupts"] == []
    assert roles(run) == ["user", "assistant", "tool", "assistant"]
    assert run["messages"][-1]["content"] == "All is well with the till."


@pytest.mark.parametrize(
    ("name", "entry", "told"),
    [
        (
            "no",
            {"status": "resolved", "payload": {"approved": False, "reason": "Bob sleeps"}},
            "Bob sleeps",
        ),
        ("cancel", {"status": "cancelled"}, "cancelled by the user"),
    ],
)
async def test_a_denied_call_does_not_run(
    browser: FrontendClient, name: str, entry: Json, told: str
) -> None:
    """A no, and an interrupt that is cancelled, are told to the model."""
    async with chat_host(*GUARDED) as host:
        await open_agent(browser, host, name)
        waiting = await browser.ask("agent.run", name, text="Greet Bob.")
        entry = {"interruptId": waiting["interrupts"][0]["id"], **entry}
        run = await browser.ask("agent.run", name, resume=[entry])

        assert host.tools.greeted == []
        assert told in str(host.provider.bodies[-1]["input"])
    assert run["messages"][-1]["content"] == "All is well with the till."


@pytest.mark.parametrize("payload", [None, {}, {"approved": "yes"}, {"approved": 1}, "yes", True])
async def test_an_unclear_answer_decides_nothing(browser: FrontendClient, payload: Any) -> None:
    """Only true and false are answers."""
    async with chat_host(*GUARDED) as host:
        await open_agent(browser, host, "unclear")
        waiting = await browser.ask("agent.run", "unclear", text="Greet Bob.")
        entry = {"interruptId": waiting["interrupts"][0]["id"], "status": "resolved"}
        run = await browser.ask("agent.run", "unclear", resume=[{**entry, "payload": payload}])
        inbox = await host.client.get("/v1/approvals", headers=host.as_(ADA))

        assert host.tools.greeted == []
    assert "HTTP 422" in run["fault"]
    assert len(inbox.json()["approvals"]) == 1


async def test_who_may_not_decide_gets_no_interrupt(
    browser: FrontendClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob is no approver: the run goes on when the lead has decided."""
    seen = seen_approval(monkeypatch)
    async with chat_host(*GUARDED) as host:
        await open_agent(browser, host, "lead", BOB)
        running = asyncio.ensure_future(browser.ask("agent.run", "lead", text="Greet Bob."))
        await seen.wait()
        inbox = await host.client.get("/v1/approvals", headers=host.as_(LEAD))
        [approval] = inbox.json()["approvals"]
        await host.post(f"/v1/approvals/{approval['approval_id']}/decide", LEAD, decision="approve")
        run = await running

        assert host.tools.greeted == ["Bob"]
    assert run["interrupts"] == []
    named = [each["name"] for each in run["events"] if each["type"] == "CUSTOM"]
    assert "toolcrib.approval_elsewhere" in named
    assert run["messages"][-1]["content"] == "All is well with the till."


async def test_a_thread_goes_on_from_its_loaded_history(browser: FrontendClient) -> None:
    """A page that is loaded again gets the messages, and the next run continues."""
    async with chat_host(response(call("greet", {"name": "Ada"})), DONE, DONE) as host:
        await open_agent(browser, host, "reload")
        before = await browser.ask("agent.run", "reload", text="Greet Ada.")
        loaded = await host.client.get("/v1/ag-ui/reload/messages", headers=host.as_(ADA))
        messages = loaded.json()["messages"]
        await open_agent(browser, host, "reload", messages=messages)
        after = await browser.ask("agent.run", "reload", text="And the till?")

    assert [(each["role"], each.get("content")) for each in messages] == [
        (each["role"], each.get("content")) for each in before["messages"]
    ]
    assert roles(after) == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_tools_of_the_front_end_run_there(browser: FrontendClient) -> None:
    """The run ends with the call, and goes on when the front end has added its result."""
    where = {
        "name": "where",
        "description": "Where the person is.",
        "parameters": {"type": "object"},
    }
    async with chat_host(response(call("where")), DONE) as host:
        await open_agent(browser, host, "page")
        asked = await browser.ask("agent.run", "page", text="Where am I?", tools=[where])
        (call_id,) = asked["pending"]
        results = [{"toolCallId": call_id, "content": '{"city": "Bergen"}'}]
        run = await browser.ask("agent.run", "page", results=results, tools=[where])

        assert "Bergen" in str(host.provider.bodies[-1]["input"])
    assert asked["events"][-1]["outcome"] == {"type": "success", "pendingToolCallIds": [call_id]}
    assert run["messages"][-1]["content"] == "All is well with the till."
    assert run["fault"] is None


async def test_a_new_message_gives_up_the_calls_of_the_front_end(browser: FrontendClient) -> None:
    """A page that is left before it has run its tool does not lock the thread."""
    where = {"name": "where", "description": "Where the person is."}
    async with chat_host(response(call("where")), DONE) as host:
        await open_agent(browser, host, "left")
        await browser.ask("agent.run", "left", text="Where am I?", tools=[where])
        await open_agent(browser, host, "left")
        run = await browser.ask("agent.run", "left", text="How is the till?", tools=[where])

    assert run["messages"][-1]["content"] == "All is well with the till."


async def test_a_failed_prompt_is_the_error_of_the_run(browser: FrontendClient) -> None:
    """The model's provider refuses: the person reads why."""
    async with chat_host() as host:
        await open_agent(browser, host, "failed")
        run = await browser.ask("agent.run", "failed", text="How is the till?")

    assert run["events"][-1]["type"] == "RUN_ERROR"
    assert "the script is over" in run["events"][-1]["message"]


async def test_a_thread_of_somebody_else_cannot_be_met(browser: FrontendClient) -> None:
    """A full session id of another principal leads nowhere."""
    async with chat_host(DONE, DONE) as host:
        await open_agent(browser, host, "own")
        await browser.ask("agent.run", "own", text="I am Ada.")
        await open_agent(browser, host, "ada:own", BOB)
        run = await browser.ask("agent.run", "ada:own", text="What did Ada say?")

        assert len(host.provider.bodies) == 1
    assert "HTTP 422" in run["fault"]
