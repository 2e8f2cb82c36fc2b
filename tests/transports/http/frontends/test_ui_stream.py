"""The AI SDK's own chat works against a served runtime."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Generator
from typing import Any

import pytest

from tests.adapters.openai.scripted_provider import Events, call, events_of, message, response
from tests.helpers.patience import PATIENCE
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
from toolcrib.tools.image_generation import image_generation_tool
from toolcrib.tools.web_search import web_search_tool

pytestmark = needs_node
DONE = response(message("All is well with the till."))


@pytest.fixture(scope="module")
def browser() -> Generator[FrontendClient]:
    """One process for all tests: starting it takes longer than they do."""
    with frontend_client() as client:
        yield client


async def open_chat(
    browser: FrontendClient, host: ChatHost, name: str, token: str = ADA, **more: Any
) -> None:
    await browser.ask("ui.open", name, url=host.url, token=token, **more)


def parts_of(shown: Json, kind: str = "") -> list[Json]:
    """The parts of the last message whose type begins so."""
    return [part for part in shown["messages"][-1]["parts"] if part["type"].startswith(kind)]


def text_of(shown: Json) -> str:
    return "".join(part["text"] for part in parts_of(shown, "text"))


def call_of(shown: Json) -> Json:
    (found,) = parts_of(shown, "tool-")
    return found


async def test_text_streams_into_one_message(browser: FrontendClient) -> None:
    """The message grows piece by piece, and ends with what the turn took."""
    async with chat_host(DONE) as host:
        await open_chat(browser, host, "text")
        states = await browser.ask("ui.read", "text", text="How is the till?")

    texts = [state["parts"][-1].get("text") for state in states if len(state["parts"]) > 1]
    assert "All is well w" in texts
    assert texts[-1] == "All is well with the till."
    assert states[-1]["id"] == "answer-1"
    assert states[-1]["metadata"] == {
        "sessionId": "ada:text",
        "turn": 1,
        "status": "completed",
        "usage": {"requests": 1, "input_tokens": 10, "output_tokens": 5},
        "cost": None,
    }


async def test_reasoning_comes_before_the_text(browser: FrontendClient) -> None:
    """The visible reasoning of a model is a part of its own."""
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Tills jam."}],
    }
    reply = response(thought, message("Look inside."))
    events = [each for each in events_of(reply) if "delta" not in each["type"]]
    async with chat_host(Events(events)) as host:
        await open_chat(browser, host, "thought")
        shown = await browser.ask("ui.send", "thought", text="Why?")

    assert [(part["type"], part.get("text")) for part in parts_of(shown)] == [
        ("step-start", None),
        ("reasoning", "Tills jam."),
        ("text", "Look inside."),
    ]
    assert (shown["status"], shown["fault"]) == ("ready", None)


async def test_a_call_shows_its_input_its_progress_and_its_output(browser: FrontendClient) -> None:
    """A tool that runs here is a tool part; its progress is data that no history keeps."""
    async with chat_host(response(call("greet", {"name": "Ada"})), DONE) as host:
        await open_chat(browser, host, "call")
        shown = await browser.ask("ui.send", "call", text="Greet Ada.")

    part = call_of(shown)
    assert (part["type"], part["state"]) == ("tool-greet", "output-available")
    assert (part["input"], part["output"]) == ({"name": "Ada"}, "Hello, Ada!")
    assert text_of(shown) == "All is well with the till."
    assert [data["data"] for data in shown["data"]] == [
        {
            "toolCallId": part["toolCallId"],
            "toolName": "greet",
            "what": "progress",
            "current": 1,
            "total": 2,
            "message": "half of it",
        }
    ]


async def test_a_failed_call_is_an_error_of_its_part(browser: FrontendClient) -> None:
    """The chat itself goes on: the model was told and has answered."""
    async with chat_host(response(call("broken", {"name": "Ada"})), DONE) as host:
        await open_chat(browser, host, "broken")
        shown = await browser.ask("ui.send", "broken", text="Try.")

    assert call_of(shown)["state"] == "output-error"
    assert "the till is jammed" in call_of(shown)["errorText"]
    assert (shown["status"], text_of(shown)) == ("ready", "All is well with the till.")


GUARDED = (response(call("guarded", {"name": "Bob"})), DONE)


async def test_an_approved_call_runs_and_the_same_message_goes_on(browser: FrontendClient) -> None:
    """The answer to the request is sent by itself, and nothing is shown twice."""
    async with chat_host(*GUARDED) as host:
        await open_chat(browser, host, "approve")
        waiting = await browser.ask("ui.send", "approve", text="Greet Bob.")
        part = call_of(waiting)
        greeted_before = list(host.tools.greeted)
        shown = await browser.ask("ui.decide", "approve", id=part["approval"]["id"], approved=True)

        assert (part["state"], part["approval"]["requestReason"]) == (
            "approval-requested",
            "The tool requires approval.",
        )
        assert (greeted_before, host.tools.greeted) == ([], ["Bob"])
    assert (call_of(shown)["state"], call_of(shown)["output"]) == (
        "output-available",
        "Hello, Bob!",
    )
    assert text_of(shown) == "All is well with the till."
    assert [each["role"] for each in shown["messages"]] == ["user", "assistant"]


async def test_a_denied_call_does_not_run_and_the_model_reads_why(browser: FrontendClient) -> None:
    """The reason that the person gives is what the model is told."""
    async with chat_host(*GUARDED) as host:
        await open_chat(browser, host, "deny")
        waiting = await browser.ask("ui.send", "deny", text="Greet Bob.")
        approval_id = call_of(waiting)["approval"]["id"]
        shown = await browser.ask(
            "ui.decide", "deny", id=approval_id, approved=False, reason="Bob sleeps"
        )

        assert host.tools.greeted == []
        assert "Bob sleeps" in str(host.provider.bodies[-1]["input"])
    assert call_of(shown)["state"] == "output-denied"
    assert text_of(shown) == "All is well with the till."


async def test_a_request_that_is_ignored_runs_nothing(browser: FrontendClient) -> None:
    """A new message takes the place of the turn that waits, and its call is withdrawn."""
    async with chat_host(*GUARDED) as host:
        await open_chat(browser, host, "ignore")
        waiting = await browser.ask("ui.send", "ignore", text="Greet Bob.")
        approval_id = call_of(waiting)["approval"]["id"]
        shown = await browser.ask("ui.send", "ignore", text="Never mind. How is the till?")
        found = await host.client.get(f"/v1/approvals/{approval_id}", headers=host.as_(ADA))

        assert host.tools.greeted == []
    assert text_of(shown) == "All is well with the till."
    assert found.json()["state"] != "pending"


async def test_a_second_message_continues_the_conversation(browser: FrontendClient) -> None:
    """The history is the ledger's; of the client's, only the new message is taken."""
    async with chat_host(response(message("Noted.")), DONE) as host:
        await open_chat(browser, host, "second")
        await browser.ask("ui.send", "second", text="The till is new.")
        shown = await browser.ask("ui.send", "second", text="How is it?")
        body = host.provider.bodies[-1]

    assert [each["id"] for each in shown["messages"] if each["role"] == "assistant"] == [
        "answer-1",
        "answer-2",
    ]
    assert "How is it?" in str(body["input"])
    assert body.get("previous_response_id") or "The till is new." in str(body["input"])


async def test_a_page_that_is_loaded_again_shows_the_same(browser: FrontendClient) -> None:
    """The messages of the ledger are those that the stream built, also for a call that waits, and
    the chat goes on from them.
    """
    async with chat_host(response(call("greet", {"name": "Ada"})), DONE, *GUARDED) as host:
        await open_chat(browser, host, "reload")
        await browser.ask("ui.send", "reload", text="Greet Ada.")
        before = await browser.ask("ui.send", "reload", text="Greet Bob.")
        path = "/v1/ui-stream/reload/messages"
        loaded = (await host.client.get(path, headers=host.as_(ADA))).json()["messages"]
        await open_chat(browser, host, "reload", messages=loaded)
        approval_id = loaded[-1]["parts"][-1]["approval"]["id"]
        after = await browser.ask("ui.decide", "reload", id=approval_id, approved=True)

        assert host.tools.greeted == ["Ada", "Bob"]
    assert [_gist(each) for each in loaded] == [_gist(each) for each in before["messages"]]
    assert call_of(after)["output"] == "Hello, Bob!"
    assert text_of(after) == "All is well with the till."


def _gist(each: Json) -> list[Any]:
    wanted = ("type", "text", "state", "input", "output")
    return [[part.get(name) for name in wanted if part.get(name)] for part in each["parts"]]


async def test_a_chat_of_somebody_else_cannot_be_met(browser: FrontendClient) -> None:
    """The same chat id of another principal is another session, and a full id leads nowhere."""
    async with chat_host(response(message("For Ada.")), response(message("For Bob."))) as host:
        await open_chat(browser, host, "shared")
        await browser.ask("ui.send", "shared", text="Hello, I am Ada.")
        await open_chat(browser, host, "shared", BOB)
        shown = await browser.ask("ui.send", "shared", text="Hello, I am Bob.")
        await open_chat(browser, host, "ada:shared", BOB)
        forged = await browser.ask("ui.send", "ada:shared", text="What did Ada say?")
        read = await host.client.get("/v1/ui-stream/ada:shared/messages", headers=host.as_(BOB))

        assert "Ada" not in str(host.provider.bodies[1]["input"])
        assert len(host.provider.bodies) == 2
    assert text_of(shown) == "For Bob."
    assert (forged["status"], read.status_code) == ("error", 404)
    assert "namespace" in forged["fault"] or "begins with" in forged["fault"]


async def test_who_may_not_decide_is_not_asked_and_waits(
    browser: FrontendClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob is no approver: he sees that somebody else has to decide, and the stream goes on when
    the lead has.
    """
    seen = seen_approval(monkeypatch)
    async with chat_host(*GUARDED) as host:
        await open_chat(browser, host, "lead", BOB)
        sending = asyncio.ensure_future(browser.ask("ui.send", "lead", text="Greet Bob."))
        await seen.wait()
        inbox = await host.client.get("/v1/approvals", headers=host.as_(LEAD))
        approvals: list[Json] = inbox.json()["approvals"]
        decide = f"/v1/approvals/{approvals[0]['approval_id']}/decide"
        answer = await host.post(decide, LEAD, decision="approve")
        shown = await sending

        assert answer.status_code == 200, answer.text
        assert host.tools.greeted == ["Bob"]
    elsewhere = [each for each in shown["data"] if each["type"] == "data-approval-elsewhere"]
    assert [each["data"]["toolName"] for each in elsewhere] == ["guarded"]
    assert "approval" not in call_of(shown)
    assert call_of(shown)["output"] == "Hello, Bob!"


async def until_followed(host: ChatHost, session_id: str, *, is_followed: bool = True) -> None:
    """Wait until somebody follows a session, or nobody does any more."""
    sessions = host.runtime.service._sessions  # pyright: ignore[reportPrivateUsage]
    async with asyncio.timeout(PATIENCE):
        while True:
            live = sessions.find(session_id)
            if live is not None and live.is_followed == is_followed:
                return
            await asyncio.sleep(0.01)


async def test_the_turn_goes_on_without_its_client_and_can_be_followed(
    browser: FrontendClient,
) -> None:
    """A chat that was left in the middle of a turn gets all of it when it comes back."""
    async with chat_host(response(call("held_back", {"name": "Ada"})), DONE) as host:
        await open_chat(browser, host, "back")
        left = await browser.ask("ui.begin", "back", text="Take your time.")
        history = await host.client.get("/v1/ui-stream/back/messages", headers=host.as_(ADA))
        await open_chat(browser, host, "back", messages=history.json()["messages"][:1])
        await until_followed(host, "ada:back", is_followed=False)
        resuming = asyncio.ensure_future(browser.ask("ui.resume", "back"))
        await host.tools.entered.wait()
        await until_followed(host, "ada:back")
        host.tools.open.set()
        shown = await resuming
        await open_chat(browser, host, "back", messages=history.json()["messages"][:1])
        over = await browser.ask("ui.resume", "back")

    assert left["messages"][-1]["parts"][-1]["state"] in ("input-streaming", "input-available")
    assert call_of(shown)["output"] == "At last, Ada!"
    assert text_of(shown) == "All is well with the till."
    assert [each["role"] for each in over["messages"]] == ["user"]


async def test_an_answer_is_not_regenerated(browser: FrontendClient) -> None:
    """A ledger keeps every turn: the client is told so, and the model is not asked."""
    async with chat_host(DONE) as host:
        await open_chat(browser, host, "regenerate")
        await browser.ask("ui.send", "regenerate", text="How is the till?")
        shown = await browser.ask("ui.regenerate", "regenerate")

        assert len(host.provider.bodies) == 1
    assert shown["status"] == "error"
    assert "cannot be regenerated" in shown["fault"]


async def test_a_message_without_an_answer_can_be_tried_again(browser: FrontendClient) -> None:
    """The button for another try works after a failure, which is what it is there for."""
    async with chat_host() as host:
        await open_chat(browser, host, "again")
        failed = await browser.ask("ui.send", "again", text="How is the till?")
        host.provider.add(DONE)
        shown = await browser.ask("ui.regenerate", "again")

    assert (failed["status"], shown["status"]) == ("error", "ready")
    assert text_of(shown) == "All is well with the till."


async def test_a_failed_prompt_is_an_error_of_the_chat(browser: FrontendClient) -> None:
    """The model's provider refuses: the person reads why."""
    async with chat_host() as host:
        await open_chat(browser, host, "failed")
        shown = await browser.ask("ui.send", "failed", text="How is the till?")

    assert shown["status"] == "error"
    assert "the script is over" in shown["fault"]


async def test_tools_of_the_front_end_run_there(browser: FrontendClient) -> None:
    """A tool that the page declares is run by the page, and its output goes to the model."""
    where = {
        "name": "where",
        "description": "Where the person is.",
        "parameters": {"type": "object"},
    }
    async with chat_host(response(call("where")), DONE) as host:
        outputs = {"where": {"output": {"city": "Bergen"}}}
        await open_chat(browser, host, "page", tools=[where], outputs=outputs)
        shown = await browser.ask("ui.send", "page", text="Where am I?")

        assert "Bergen" in str(host.provider.bodies[-1]["input"])
    assert call_of(shown)["output"] == {"city": "Bergen"}
    assert text_of(shown) == "All is well with the till."


CITED = {
    "type": "url_citation",
    "url": "https://tills.example/jams",
    "title": "Jams of tills",
    "start_index": 0,
    "end_index": 5,
}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "till jams"},
}


async def test_a_tool_of_the_provider_shows_its_run_and_its_sources(
    browser: FrontendClient,
) -> None:
    """The run is a tool part that nobody here runs, and what the answer cites is a source; the same
    after a reload.
    """
    reply = response(SEARCH, message("Tills jam.", CITED, CITED))
    async with chat_host(reply, hosted_tools=[web_search_tool()]) as host:
        await open_chat(browser, host, "search")
        shown = await browser.ask("ui.send", "search", text="Why do tills jam?")
        loaded = await host.client.get("/v1/ui-stream/search/messages", headers=host.as_(ADA))

    part = call_of(shown)
    assert (part["type"], part["state"]) == ("tool-web_search", "output-available")
    assert part["providerExecuted"] is True
    (source,) = parts_of(shown, "source")
    assert (source["type"], source["url"], source["title"]) == (
        "source-url",
        "https://tills.example/jams",
        "Jams of tills",
    )
    kinds = [each["type"] for each in loaded.json()["messages"][-1]["parts"]]
    assert kinds == ["step-start", "tool-web_search", "text", "source-url"]


async def test_arguments_stream_while_the_model_writes_them(browser: FrontendClient) -> None:
    """The part of the call is there before its arguments are whole."""
    item = call("greet", {"name": "Ada"})
    added = {
        "type": "response.output_item.added",
        "item": item,
        "output_index": 0,
        "item_id": "fc_1",
    }
    deltas = [
        {
            "type": "response.function_call_arguments.delta",
            "delta": piece,
            "item_id": "fc_1",
            "output_index": 0,
            "sequence_number": 2,
        }
        for piece in ('{"na', 'me": "A', 'da"}')
    ]
    whole = events_of(response(item))
    opened = {**added, "item": {**item, "arguments": ""}, "sequence_number": 1}
    events = [whole[0], opened, *deltas, *whole[2:]]
    async with chat_host(Events(events), DONE) as host:
        await open_chat(browser, host, "arguments")
        states = await browser.ask("ui.read", "arguments", text="Greet Ada.")

    inputs = [
        (part["state"], part.get("input"))
        for state in states
        for part in state["parts"]
        if part["type"] == "tool-greet"
    ]
    assert ("input-streaming", {"name": "A"}) in inputs
    assert inputs[-1] == ("output-available", {"name": "Ada"})


@pytest.mark.parametrize("size", [40, 30_000], ids=["in the ledger", "beside the ledger"])
async def test_a_picture_is_a_file_of_the_message(browser: FrontendClient, size: int) -> None:
    """A picture that the provider drew can be shown, also one that is kept beside the ledger, and
    after a reload.
    """
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(size)).decode()
    drawn = {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": picture,
        "output_format": "png",
    }
    async with chat_host(
        response(drawn, message("A till.")), hosted_tools=[image_generation_tool()]
    ) as host:
        await open_chat(browser, host, f"picture-{size}")
        shown = await browser.ask("ui.send", f"picture-{size}", text="Draw a till.")
        path = f"/v1/ui-stream/picture-{size}/messages"
        loaded = await host.client.get(path, headers=host.as_(ADA))

    (file,) = parts_of(shown, "file")
    assert (file["mediaType"], file["url"]) == ("image/png", f"data:image/png;base64,{picture}")
    (again,) = [p for p in loaded.json()["messages"][-1]["parts"] if p["type"] == "file"]
    assert again["url"] == file["url"]
