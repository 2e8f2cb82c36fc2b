"""Prompts of an editor: what it is told on the way, and why they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from acp import schema
from acp.exceptions import RequestError

from tests.transports.acp.connected_editor import wired_desk
from tests.transports.acp.editor import Desk, desk, why
from tests.transports.acp.shop_agent import scripted
from tests.transports.shop import shop
from toolcrib.runtime.runtime import Runtime


def asking(script: str, **changes: Any) -> Runtime:
    return shop(adapter=scripted(script), **changes)


async def begun(at: Desk, session_id: str, call_id: str) -> asyncio.Task[schema.PromptResponse]:
    """A prompt whose call has entered its handler."""
    await at.ask("events.subscribe", session_id=session_id)
    turn = asyncio.ensure_future(at.prompt(session_id, "Go."))
    while True:
        _, event = await at.editor.events.get()
        if event["kind"] == "tool.output" and event["data"]["call_id"] == call_id:
            return turn


@pytest.mark.slow
async def test_a_model_calls_host_tools_of_a_process_with_and_without_approval() -> None:
    """R36, R40, R41, R42: a prompt from an editor calls the host's tools, which it is told of, and
    waits for its person.
    """
    async with desk("--model") as (at, process):
        session_id = await at.open()
        first = await at.prompt(session_id, "Greet Ada.")

        assert first.stop_reason == "end_turn"
        assert at.editor.text() == "Ada was greeted."
        assert at.editor.statuses("call_model_1") == ["pending", "in_progress", "completed"]

        turn = asyncio.ensure_future(at.prompt(session_id, "Greet Bob."))
        question = await at.question()

        # Once while the model writes it, and once as it waits.
        assert at.editor.statuses("call_model_2") == ["pending", "pending"]
        assert question.call.tool_call_id == "call_model_2"
        assert question.call.raw_input == {"name": "Bob"}

        question.choose("allow")

        assert (await turn).stop_reason == "end_turn"
        assert at.editor.text() == "Ada was greeted.Bob was greeted."
        statuses = ["pending", "pending", "in_progress", "completed"]
        assert at.editor.statuses("call_model_2") == statuses
        last = at.editor.told("tool_call_update")[-1]
        assert (last.raw_input, last.raw_output) == ({"name": "Bob"}, "Hello, Bob!")
        assert last.content[0].content.text == "Hello, Bob!"
    assert process.returncode == 0


async def test_thoughts_and_words_between_calls_are_told_in_order() -> None:
    """What the model lets see of its reasoning is a thought, and what it says before a call comes
    before the call, which is shown with its arguments while the model writes them.
    """
    async with wired_desk(asking("thinking")) as at:
        await at.prompt(await at.open(), "Greet Ada.")

        kinds = [each.session_update for each in at.editor.updates]
        assert kinds == [
            "agent_thought_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "tool_call_update",
            "tool_call_update",
            "agent_message_chunk",
        ]
        written, begun_call, ended = at.editor.told("tool_call_update")
        assert (written.status, written.raw_input) == (None, {"name": "Ada"})
        assert (begun_call.status, ended.status) == ("in_progress", "completed")
        assert at.editor.text("agent_thought_chunk") == "Ada likes to be greeted."
        ids = [each.message_id for each in at.editor.told("agent_message_chunk")]
        assert len(set(ids)) == 2


async def test_progress_and_output_are_updates_of_their_call() -> None:
    """R51: what a running tool tells is shown with its call."""
    async with wired_desk(shop()) as at:
        session_id = await at.open()
        await at.ask("events.subscribe", session_id=session_id)
        await at.ask("tools.call", session_id=session_id, name="stepping", arguments={})
        await at.ask("session.close", session_id=session_id)
        while (await at.editor.events.get())[0] != "toolcrib/events.ended":
            pass

        metas = [each.field_meta for each in at.editor.told("tool_call_update")]
        progress = {"current": 1.0, "total": 2.0, "message": "half of it"}
        assert {"toolcrib": {"progress": progress}} in metas
        shown = [each.content for each in at.editor.told("tool_call_update") if each.content]
        assert [each.content.text for each in shown[1]] == ["a piece", "1/2 half of it"]


async def test_a_cancel_is_answered_during_a_prompt() -> None:
    """R39: the prompt ends as cancelled, its call too, and the session answers the next one."""
    async with wired_desk(asking("endless")) as at:
        session_id = await at.open()
        turn = await begun(at, session_id, "call_model_1")

        await at.agent.cancel(session_id=session_id)

        assert (await turn).stop_reason == "cancelled"
        assert at.editor.statuses("call_model_1") == ["pending", "in_progress", "failed"]
        assert (await at.prompt(session_id, "And now?")).stop_reason == "end_turn"


async def test_a_session_that_is_loaded_during_a_prompt_can_still_be_cancelled() -> None:
    """Whoever joins again has the prompts that it began."""
    async with wired_desk(asking("endless")) as at:
        session_id = await at.open()
        turn = await begun(at, session_id, "call_model_1")

        await at.agent.load_session(cwd="/", session_id=session_id)
        await at.agent.cancel(session_id=session_id)

        assert (await turn).stop_reason == "cancelled"
        assert at.editor.statuses("call_model_1")[-1] == "failed"


async def test_a_cancel_that_comes_with_the_prompt_is_not_lost() -> None:
    """Whoever cancels at once does not have to cancel again."""
    async with wired_desk(asking("endless")) as at:
        session_id = await at.open()
        turn = asyncio.ensure_future(at.prompt(session_id, "Go."))
        await asyncio.sleep(0)
        await at.agent.cancel(session_id=session_id)

        assert (await turn).stop_reason == "cancelled"


async def test_a_cancel_withdraws_what_waits_for_the_person() -> None:
    """R42: after a cancel an answer allows nothing any more."""
    async with wired_desk(asking("guarded")) as at:
        session_id = await at.open()
        turn = asyncio.ensure_future(at.prompt(session_id, "Greet Bob."))
        question = await at.question()

        await at.agent.cancel(session_id=session_id)
        question.dismiss()

        assert (await turn).stop_reason == "cancelled"
        assert (await at.ask("approvals.list", session_id=session_id))["approvals"] == []
        assert at.editor.statuses("call_model_2")[-1] == "failed"


@pytest.mark.parametrize(
    ("script", "reason", "words"),
    [("refusal", "refusal", "not in this shop"), ("rounds", "max_turn_requests", "may take 50")],
)
async def test_why_there_is_no_answer_is_the_reason_and_is_said(
    script: str, reason: str, words: str
) -> None:
    """A refusal and a spent budget are ends of a turn; the person reads which."""
    async with wired_desk(asking(script)) as at:
        response = await at.prompt(await at.open(), "Go.")

        assert response.stop_reason == reason
        assert words in at.editor.text()


async def test_a_provider_that_fails_is_an_error_with_its_reason() -> None:
    """A prompt that nobody answered is no turn that ended well."""
    async with wired_desk(asking("broken")) as at:
        with pytest.raises(RequestError, match="the script is over") as told:
            await at.prompt(await at.open(), "Go.")

        assert why(told.value) == "failed"


async def test_without_a_model_a_prompt_is_refused_clearly() -> None:
    """The host's tools can be called all the same."""
    async with wired_desk(shop()) as at:
        session_id = await at.open()

        with pytest.raises(RequestError, match="name one in") as told:
            await at.prompt(session_id, "Greet Ada.")
        assert (told.value.code, why(told.value)) == (-32011, "unavailable")

        greeted = await at.ask(
            "tools.call", session_id=session_id, name="greet", arguments={"name": "Ada"}
        )
        assert greeted["value"] == "Hello, Ada!"


async def test_a_second_prompt_is_refused_while_one_is_answered() -> None:
    """One turn at a time; the first one goes on."""
    async with wired_desk(asking("endless")) as at:
        session_id = await at.open()
        turn = await begun(at, session_id, "call_model_1")

        with pytest.raises(RequestError) as told:
            await at.prompt(session_id, "Me too.")
        assert why(told.value) == "busy"
        assert not turn.done()

        await at.agent.cancel(session_id=session_id)
        await turn


async def test_links_and_embedded_text_reach_the_model() -> None:
    """What a person attaches is part of the prompt."""
    async with wired_desk(asking("thinking")) as at:
        session_id = await at.open()
        blocks: list[Any] = [
            schema.TextContentBlock(type="text", text="Look at these."),
            schema.ResourceContentBlock(type="resource_link", uri="file:///a.py", name="a.py"),
            schema.EmbeddedResourceContentBlock(
                type="resource",
                resource=schema.TextResourceContents(uri="file:///b.py", text="b = 1"),
            ),
        ]
        await at.agent.prompt(session_id=session_id, prompt=blocks)

        events = (await at.ask("events.list", session_id=session_id))["events"]
        (asked,) = [each["data"]["text"] for each in events if each["kind"] == "prompt.started"]
        assert "[a.py](file:///a.py)" in asked
        assert '<resource uri="file:///b.py">\nb = 1\n</resource>' in asked


@pytest.mark.parametrize(
    "block",
    [
        schema.ImageContentBlock(type="image", data="aGk=", mime_type="image/png"),
        schema.AudioContentBlock(type="audio", data="aGk=", mime_type="audio/wav"),
        schema.EmbeddedResourceContentBlock(
            type="resource", resource=schema.BlobResourceContents(uri="file:///c", blob="aGk=")
        ),
        schema.TextContentBlock(type="text", text=" "),
    ],
)
async def test_what_cannot_be_told_in_text_is_refused_and_not_dropped(block: Any) -> None:
    """A prompt without what was attached would be another prompt."""
    async with wired_desk(asking("thinking")) as at:
        with pytest.raises(RequestError) as told:
            await at.agent.prompt(session_id=await at.open(), prompt=[block])

        assert told.value.code == -32602
