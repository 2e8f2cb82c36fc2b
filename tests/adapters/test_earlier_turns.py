"""What a prompt says again of the turns that it follows, and what the ledger says of the rest."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic_ai.messages import BinaryContent, TextPart, ThinkingPart, UserPromptPart

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, call, message, response
from tests.adapters.pydantic_ai.scripted_adapter import bench as script_bench
from tests.adapters.pydantic_ai.scripted_adapter import call as part
from toolcrib import PromptEvaluationError, Session, SqliteStore
from toolcrib.adapters.options import Budget
from toolcrib.ledger.prompt_events import HistoryOmitted, PromptStarted
from toolcrib.prompt import FileAttachment, TextAttachment

NOTE: Final = TextAttachment("SECRET NOTE", title="Note")
TABLE: Final = FileAttachment(data=b"a,b", name="t.csv")
PICTURE: Final = FileAttachment(data=b"\x89PNG", name="p.png")
UPLOADED: Final = FileAttachment(file_id="file-1", name="u.pdf")
ALL: Final = (NOTE, TABLE, PICTURE, UPLOADED)
ONE, TWO = response(message("One."), id="resp_1"), response(message("Two."), id="resp_2")


def omitted(session: Session) -> list[tuple[int, str, str]]:
    return [
        (item.turn, item.what, item.reason)
        for event in session.events()
        if isinstance(event, HistoryOmitted)
        for item in event.items
    ]


def test_attachments_of_earlier_turns_are_said_again() -> None:
    """Finding 2b: text, file, image and uploaded file of turn 1 are in the request of turn 2."""
    session = Session()
    with bench(ONE, TWO, history="client") as (adapter, provider):
        adapter.evaluate(ask(text="One?").bind(attachments=ALL), session=session)
        adapter.evaluate(ask(text="Two?"), session=session, follows=True)

    first, second = provider.bodies
    assert second["input"][0] == first["input"][0]
    assert [part["type"] for part in first["input"][0]["content"]] == [
        "input_text",
        "input_text",
        "input_file",
        "input_image",
        "input_file",
    ]
    assert omitted(session) == []


def test_a_model_of_pydantic_ai_gets_them_too() -> None:
    """Finding 2b: the same with every provider behind pydantic-ai, thoughts and calls included."""
    session = Session()
    thought = ThinkingPart("Hm.", signature="sig", provider_name="function")
    with script_bench([thought, TextPart("One.")], "Two.") as (adapter, script):
        adapter.evaluate(ask().bind(attachments=ALL[:3]), session=session)
        adapter.evaluate(ask(text="Two?"), session=session, follows=True)

    first, reply, _ = script.asked[1]
    (said,) = first.parts
    assert isinstance(said, UserPromptPart)
    files = [each.data for each in said.content if isinstance(each, BinaryContent)]
    assert files == [b"a,b", b"\x89PNG"]
    assert "Note\n\nSECRET NOTE" in said.content
    assert thought in reply.parts


async def test_another_process_says_them_again(tmp_path: Path) -> None:
    """What an attachment held is in the store, whatever became of its file, and once."""
    file = tmp_path / "data.csv"
    file.write_bytes(b"1,2")
    attached = FileAttachment(path=file)
    with bench(ONE, TWO, TWO, history="client") as (adapter, provider):
        with SqliteStore(tmp_path / "store.db") as store:
            async with await Session.open(store, "s") as session:
                prompt = ask(text="One?").bind(attachments=[attached, attached])
                await adapter.evaluate_async(prompt, session=session)
        file.unlink()
        with SqliteStore(tmp_path / "store.db") as store:
            async with await Session.open(store, "s") as session:
                await adapter.evaluate_async(ask(text="Two?"), session=session, follows=True)
                session.verify()
                (started, _) = happened(session, PromptStarted)
                moved = Session().with_state(session.export_state())
        await adapter.evaluate_async(ask(text="Three?"), session=moved, follows=True)
        await adapter.aclose()

    one, other = started.attachments
    assert one == other
    assert one.artifact_id is not None
    assert base64.b64decode(moved.artifacts.read(one.artifact_id).text) == b"1,2"
    for body in provider.bodies[1:]:
        assert body["input"][0] == provider.bodies[0]["input"][0]


async def test_a_deleted_attachment_is_named() -> None:
    """What was deleted cannot be said again: the turn says so in the ledger, and goes on."""
    session = Session()
    with bench(ONE, TWO, history="client") as (adapter, provider):
        await adapter.evaluate_async(ask().bind(attachments=[NOTE]), session=session)
        await session.delete_payloads("ann")
        await adapter.evaluate_async(ask(text="Two?"), session=session, follows=True)
        await adapter.aclose()

    assert len(provider.bodies[1]["input"]) == 1
    assert omitted(session) == [(0, "every turn before", "their payloads were deleted")]


@pytest.mark.parametrize("history", ["server", "client"])
def test_a_turn_that_stopped_half_way_is_said_again_with_what_it_did(history: Any) -> None:
    """A turn without an answer is no reason to forget its prompt, its calls and their results."""
    session = Session()
    called = response(call("add", {"a": 1, "b": 2}), id="resp_1")
    with bench(called, TWO, history=history) as (adapter, provider):
        with pytest.raises(PromptEvaluationError, match="1 steps"):
            adapter.evaluate(ask(add, text="1 + 2?"), session=session, budget=Budget(max_steps=1))
        adapter.evaluate(ask(add, text="Well?"), session=session, follows=True)

    body = provider.bodies[1]
    output = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
    kinds = [item["type"] for item in body["input"]]
    if history == "server":
        assert body["previous_response_id"] == "resp_1"
        assert kinds == ["function_call_output", "message"]
    else:
        assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert output in body["input"]
    assert omitted(session) == []


def test_a_prompt_without_a_reply_is_named() -> None:
    """A prompt that the model did not take is not said again, which could fail for ever; the ledger
    names it.
    """
    session = Session()
    empty: Json = {"id": "resp_0", "status": "completed", "output": []}
    with bench(empty, TWO, history="client") as (adapter, provider):
        with pytest.raises(PromptEvaluationError):
            adapter.evaluate(ask(text="One?"), session=session)
        adapter.evaluate(ask(text="Two?"), session=session, follows=True)

    assert len(provider.bodies[1]["input"]) == 1
    assert omitted(session) == [(1, "the prompt", "its reply was empty")]


@pytest.mark.parametrize("history", ["server", "client"])
def test_turns_of_another_provider_are_said_again_as_text(history: Any) -> None:
    """Items of another provider cannot be sent; prompt and answer can, and the ledger names the
    rest.
    """
    session = Session()
    with bench(ONE, TWO, history=history) as (adapter, provider):
        adapter.evaluate(ask(text="One?"), session=session)
        with script_bench(part("add", {"a": 1, "b": 2}), "Three.") as (other, _):
            other.evaluate(ask(add, text="1 + 2?"), session=session, follows=True)
        adapter.evaluate(ask(text="Well?"), session=session, follows=True)

    said = [item["content"] for item in provider.bodies[1]["input"]]
    texts = [each if isinstance(each, str) else each[0]["text"] for each in said]
    assert [text.rpartition("\n")[2] for text in texts[-3:]] == ["1 + 2?", "Three.", "Well?"]
    assert provider.bodies[1].get("previous_response_id") == (
        "resp_1" if history == "server" else None
    )
    reason = "function made them, in items of its own"
    assert omitted(session) == [(2, "calls and their results", reason)]
