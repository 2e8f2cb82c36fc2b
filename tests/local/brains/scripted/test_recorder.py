"""Recording: a live run becomes a scenario that takes its facts from the tools of its own run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.local.scripted_provider import Puppet, function
from toolcrib.embedded import (
    Answered,
    BrainFailed,
    Called,
    LocalProvider,
    Piece,
    Proposed,
    Question,
    Said,
    Text,
    Thought,
)
from toolcrib.embedded.backend import Brain
from toolcrib.embedded.backends.scripted.backend import ScriptedBrain
from toolcrib.embedded.backends.scripted.recorder import Recorder
from toolcrib.errors import UsageError

TOOLS: Any = [function("stock"), function("order")]
FORMAT: Any = {
    "format": {
        "type": "json_schema",
        "name": "a",
        "schema": {"type": "object"},
        "strict": False,
    }
}


def buyer(question: Question) -> Sequence[Piece]:
    """A live brain, as far as the recorder can tell: it works with what was answered."""
    values = [turn.value for turn in question.turns if isinstance(turn, Answered)]
    asked = [turn.text for turn in question.turns if isinstance(turn, Said)]
    if asked[-1].startswith("bill"):
        return [Text(json.dumps({"paid": values[1]["total"], "of": 2, "ok": True}))]
    if not values:
        return [Thought("look first"), Proposed("stock", '{"item": "kenya", "limit": 60}')]
    if len(values) == 1:
        return [Proposed("order", json.dumps({"kilos": values[0]["missing"], "to": "Nairobi"}))]
    total = values[1]["total"]
    return [
        Text(f"Order {values[1]['id']}: {values[0]['missing']} kg for {total:,.2f} EUR, "),
        Text(f"about {round(total)}. It is {values[0]['name']}; 60 was the limit. f'{{{{x}}}}' 99"),
    ]


class Shop:
    """A client that runs the tools, with numbers of its own."""

    def __init__(self, missing: int, price: float) -> None:
        self.missing, self.price = missing, price
        self.calls: list[tuple[str, Any]] = []

    def _answer(self, name: str, arguments: Any) -> Any:
        self.calls.append((name, arguments))
        if name == "stock":
            return {"name": "Kenya AA", "missing": self.missing, "rows": [1, 2]}
        kilos = arguments["kilos"]
        return {"id": f"PO-{kilos}", "total": kilos * self.price}

    async def converse(self, brain: Brain) -> list[str]:
        """Two questions, and what was said to them."""
        async with LocalProvider(brain) as provider:
            client = provider.client()
            first = await self._ask(client, brain.name, "reorder? the limit is 60", None, {})
            second = await self._ask(client, brain.name, "bill", first.id, FORMAT)
        return [first.output_text, second.output_text]

    async def _ask(
        self, client: Any, model: str, given: Any, previous: str | None, text: Any
    ) -> Any:
        while True:
            response = await client.responses.create(
                model=model, input=given, previous_response_id=previous, tools=TOOLS, text=text
            )
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return response
            previous = response.id
            given = [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": json.dumps(self._answer(call.name, json.loads(call.arguments))),
                }
                for call in calls
            ]


async def test_a_recording_played_again_does_and_says_the_same(tmp_path: Path) -> None:
    """Round trip: the same calls, the same words, and it says that it is scripted then."""
    live, replayed = Shop(120, 7.255), Shop(120, 7.255)
    recorder = Recorder(Puppet(buyer))
    heard = await live.converse(recorder)
    recorder.save(tmp_path / "buyer.yaml", "buyer")
    brain = ScriptedBrain.from_file(tmp_path / "buyer.yaml")
    assert brain.is_scripted
    assert not recorder.is_scripted
    assert await replayed.converse(brain) == heard
    assert replayed.calls == live.calls
    assert "Order PO-120: 120 kg for 870.60 EUR, about 871." in heard[0]


async def test_other_facts_give_other_calls_and_another_answer() -> None:
    """What came from tools is read from them anew; nothing of the recorded run is said."""
    recorder = Recorder(Puppet(buyer))
    await Shop(120, 7.255).converse(recorder)
    shop = Shop(240, 10.5)
    first, second = await shop.converse(ScriptedBrain(recorder.scenario("buyer")))
    assert shop.calls[1] == ("order", {"kilos": 240, "to": "Nairobi"})
    assert first.startswith("Order PO-240: 240 kg for 2,520.00 EUR, about 2520. It is Kenya AA;")
    assert first.endswith("60 was the limit. f'{{x}}' 99")
    assert json.loads(second) == {"paid": 2520.0, "of": 2, "ok": True}


async def test_what_no_tool_said_is_named() -> None:
    """Numbers that came neither from a tool nor from the user stay, and the recorder tells."""
    recorder = Recorder(Puppet(buyer))
    await Shop(120, 7.255).converse(recorder)
    assert recorder.untraced == ["99"]


async def test_sources_are_cited_by_their_call() -> None:
    """A mark becomes `cite`, since marks count up in every run anew."""

    def search(question: Question) -> Sequence[Piece]:
        return [Text("So it is [S4].") if len(question.turns) > 1 else Proposed("stock", "{}")]

    recorder = Recorder(Puppet(search))
    asked = Said("user", "?")
    await _drain(recorder, Question("puppet", [asked]))
    turns = [asked, Called("1", "stock", "{}"), Answered("1", "stock", "t", None, ("S3", "S4"))]
    await _drain(recorder, Question("puppet", turns))
    assert recorder.scenario().turns[0].steps[1].say == "So it is {{ cite stock 1 }}."


async def test_a_question_asked_again_replaces_what_was_answered() -> None:
    """A client that repeats a request leaves one step, and nothing recorded is an error."""
    recorder = Recorder(Puppet(lambda question: [Text("hello")]))
    with pytest.raises(UsageError, match="nothing recorded"):
        recorder.text()
    for _ in range(2):
        await _drain(recorder, Question("puppet", [Said("user", "hi")]))
    assert len(recorder.scenario().turns[0].steps) == 1


async def test_a_second_conversation_is_refused() -> None:
    """Two conversations in one scenario would be a story that never was."""
    recorder = Recorder(Puppet(lambda question: [Text("hello")]))
    await _drain(recorder, Question("puppet", [Said("user", "hi")]))
    with pytest.raises(BrainFailed, match="one conversation"):
        await _drain(recorder, Question("puppet", [Said("user", "another")]))


async def _drain(brain: Brain, question: Question) -> list[Piece]:
    return [piece async for piece in brain.propose(question)]
