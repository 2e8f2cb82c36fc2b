"""Who follows a session from the middle of a reply: what is written so far, then the rest, once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

from tests.runtime.host_runtime import Gate, host_tool, model, new_session, serving
from toolcrib.embedded import BackendText, EmbeddedProvider
from toolcrib.ledger.prompt_events import (
    ArgumentsDelta,
    ModelAsked,
    PromptStopped,
    ReasoningDelta,
    TextDelta,
    TurnEnded,
)
from toolcrib.runtime.event_reader import Envelope, EventReader
from toolcrib.runtime.partial_reply import PartialReplies
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.session.session import Session
from toolcrib.testing import calls, says

PIECES = ("The first part of it. ", "The second part of it. ", "The end.")


class HaltingBackend:
    """A model that stops after its second piece until it is let go on."""

    name = "halting"
    is_scripted = False

    def __init__(self) -> None:
        # The provider has a loop of its own.
        self.may_go_on = threading.Event()

    async def propose(self, request: Any) -> AsyncIterator[BackendText]:
        yield BackendText(PIECES[0])
        yield BackendText(PIECES[1])
        await asyncio.to_thread(self.may_go_on.wait)
        yield BackendText(PIECES[2])

    async def aclose(self) -> None:
        pass


def of_kind(envelopes: list[Envelope], kind: str) -> list[Envelope]:
    return [envelope for envelope in envelopes if envelope.kind == kind]


async def followed_to_the_answer(
    runtime: Runtime, session_id: str, has_text: asyncio.Event | None = None
) -> list[Envelope]:
    envelopes: list[Envelope] = []
    reader = runtime.service.follow(session_id)
    async for envelope in reader:
        envelopes.append(envelope)
        if envelope.kind == "model.text_delta" and has_text is not None:
            has_text.set()
        elif envelope.kind == "prompt.answered":
            reader.close()
    return envelopes


async def test_a_reader_in_the_middle_of_an_answer_gets_what_is_written() -> None:
    """A page that is loaded again shows the whole answer: the text so far and the pieces that
    follow are the answer, and nothing of it comes twice.
    """
    backend, has_text = HaltingBackend(), asyncio.Event()
    adapter = EmbeddedProvider(backend).adapter()
    async with serving(adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        first = asyncio.create_task(followed_to_the_answer(runtime, session_id, has_text))
        prompt = asyncio.create_task(
            runtime.ask("prompt.send", {"session_id": session_id, "text": "go"})
        )
        await has_text.wait()
        second = runtime.service.follow(session_id)
        envelopes: list[Envelope] = []
        async for envelope in second:
            envelopes.append(envelope)
            if envelope.kind == "model.partial_reply":
                backend.may_go_on.set()
            elif envelope.kind == "prompt.answered":
                second.close()
        result = await prompt
        from_the_start = await first
    await adapter.aclose()

    (partial,) = of_kind(envelopes, "model.partial_reply")
    rest = "".join(each.data["text"] for each in of_kind(envelopes, "model.text_delta"))
    assert partial.data["text"]
    assert rest
    assert partial.data["text"] + rest == result.text == "".join(PIECES)
    assert not partial.is_kept
    assert (partial.data["turn"], partial.data["step"]) == (1, 1)
    # Who followed from the start needs none.
    assert of_kind(from_the_start, "model.partial_reply") == []
    pieces = [each.data["text"] for each in of_kind(from_the_start, "model.text_delta")]
    assert "".join(pieces) == result.text


async def test_a_reader_after_the_answer_gets_no_partial_reply() -> None:
    """The ledger has it all: nothing is kept of a reply that has ended."""
    async with serving(adapter=model([says("done")])) as runtime:
        session_id = await new_session(runtime)
        await runtime.ask("prompt.send", {"session_id": session_id, "text": "go"})
        envelopes = await followed_to_the_answer(runtime, session_id)

    assert of_kind(envelopes, "model.partial_reply") == []


def facts(session: Session, step: int = 0) -> dict[str, Any]:
    return {"session_id": session.session_id, "at": 0.0, "turn": 1, "step": step}


def test_a_partial_reply_has_text_reasoning_and_arguments() -> None:
    """Each is joined from its pieces; a piece that begins anew voids the ones before it; the next
    step begins with nothing, and the end of the turn leaves nothing.
    """
    session, replies = Session(), PartialReplies()
    with replies.collected(session):
        at = facts(session)
        for event in (
            ModelAsked(**at),
            ReasoningDelta(**at, index=0, text="Hm"),
            ReasoningDelta(**at, index=0, text="m."),
            ReasoningDelta(**at, index=1, text="So."),
            TextDelta(**at, text="void"),
            TextDelta(**at, text="An", is_restart=True),
            TextDelta(**at, text="swer"),
            ArgumentsDelta(**at, call_id="c1", tool="add", text='{"a"'),
            ArgumentsDelta(**at, call_id="c1", tool="add", text=": 1}"),
        ):
            session.announce(event)
        (reply,) = replies.now().replies
        assert (reply.text, reply.reasoning) == ("Answer", ("Hmm.", "So."))
        assert [(each.call_id, each.tool, each.text) for each in reply.calls] == [
            ("c1", "add", '{"a": 1}')
        ]
        session.announce(ModelAsked(**facts(session, 1)))
        (reply,) = replies.now().replies
        assert (reply.step, reply.text) == (1, "")
        session.announce(
            TurnEnded(session_id=session.session_id, at=0.0, turn=1, outcome="completed")
        )
        assert replies.now().replies == ()
        session.announce(TextDelta(**at, text="late"))
    assert replies.now().replies == ()


async def test_a_piece_on_its_way_comes_once() -> None:
    """A piece that is in the partial reply and is announced to the reader after it, by another
    thread, is not sent a second time.
    """
    session, replies = Session(), PartialReplies()
    with replies.collected(session):
        session.announce(ModelAsked(**facts(session)))
        reader = EventReader(session, 0, backlog=100, partial_replies=replies)
        envelopes = aiter(reader)
        early, late = (TextDelta(**facts(session), text=text) for text in ("a", "b"))
        session.announce(early)
        kinds = [(await anext(envelopes)).kind]
        while kinds[-1] != "model.partial_reply":
            kinds.append((await anext(envelopes)).kind)
        session.announce(early)
        session.announce(late)
        following = await anext(envelopes)
        reader.close()

    assert following.data["text"] == "b"


async def stops_of(runtime: Runtime, session_id: str) -> list[dict[str, Any]]:
    page = await runtime.ask("events.list", {"session_id": session_id})
    return [each["data"] for each in page.events if each["kind"] == PromptStopped.kind]


async def test_a_failed_prompt_is_in_the_ledger_with_its_reason() -> None:
    """Who loads the page after the failure reads why, and that it can be resumed."""
    async with serving(host_tool("add"), adapter=model([calls("add", {"a": 1, "b": 2})])) as at:
        session_id = await new_session(at)
        failed = await at.ask("prompt.send", {"session_id": session_id, "text": "go"})
        (stop,) = await stops_of(at, session_id)
        state = await at.ask("session.get", {"session_id": session_id})

    assert (stop["outcome"], stop["turn"]) == ("failed", 1)
    assert stop["error"] == failed.error
    assert state.has_open_prompt


async def test_a_cancelled_prompt_says_who_cancelled_it() -> None:
    """Stopping a prompt ends its running call too, and the ledger says who did it."""
    gate = Gate()
    ada = Principal("ada", frozenset({"admin"}))
    async with serving(host_tool("gate", gate), adapter=model([calls("gate")])) as runtime:
        session_id = await new_session(runtime)
        prompt = asyncio.create_task(
            runtime.ask("prompt.send", {"session_id": session_id, "text": "go"})
        )
        await gate.is_entered.wait()
        cancelled = await runtime.ask("prompt.cancel", {"session_id": session_id}, ada)
        result = await prompt
        (stop,) = await stops_of(runtime, session_id)
        page = await runtime.ask("events.list", {"session_id": session_id})

    assert cancelled.was_running
    assert result.status == "cancelled"
    assert gate.was_cancelled
    assert (stop["outcome"], stop["principal"]) == ("cancelled", "ada")
    (ended,) = [each["data"] for each in page.events if each["kind"] == "tool.invoked"]
    assert ended["failure"]["kind"] == "cancelled"


async def test_capabilities_name_the_agent() -> None:
    """Its provider and its model; without one, how to configure it."""
    async with serving(adapter=model([says("x")])) as runtime:
        agent = (await runtime.ask("runtime.capabilities")).agent
    async with serving() as runtime:
        nobody = (await runtime.ask("runtime.capabilities")).agent

    assert (agent.is_configured, agent.provider, agent.model) == (True, "openai", "test-model")
    assert agent.hint is None
    assert not nobody.is_configured
    assert "toolcrib.yaml" in nobody.hint
    assert "--adapter" in nobody.hint
