"""Recording: a live run becomes a scenario that takes its facts from the tools of its own run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.scripted_provider import Puppet, function
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.embedded.backend import ModelBackend
from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend
from toolcrib.embedded.backends.scenarios.recorder import ScenarioRecorder
from toolcrib.errors import BackendFailed, UsageError

TOOLS: Any = [function("stock"), function("order")]
FORMAT: Any = {
    "format": {
        "type": "json_schema",
        "name": "a",
        "schema": {"type": "object"},
        "strict": False,
    }
}


def buyer(request: BackendRequest) -> Sequence[BackendOutput]:
    """A live backend, as far as the recorder can tell: it works with what was answered."""
    values = [turn.value for turn in request.history if isinstance(turn, BackendCallResult)]
    asked = [turn.text for turn in request.history if isinstance(turn, BackendMessage)]
    if asked[-1].startswith("bill"):
        return [BackendText(json.dumps({"paid": values[1]["total"], "of": 2, "ok": True}))]
    if not values:
        return [
            BackendReasoning("look first"),
            ProposedCall("stock", '{"item": "kenya", "limit": 60}'),
        ]
    if len(values) == 1:
        return [ProposedCall("order", json.dumps({"kilos": values[0]["missing"], "to": "Nairobi"}))]
    total = values[1]["total"]
    return [
        BackendText(f"Order {values[1]['id']}: {values[0]['missing']} kg for {total:,.2f} EUR, "),
        BackendText(
            f"about {round(total)}. It is {values[0]['name']}; 60 was the limit. f'{{{{x}}}}' 99"
        ),
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

    async def converse(self, backend: ModelBackend) -> list[str]:
        """Two questions, and what was said to them."""
        async with EmbeddedProvider(backend) as provider:
            client = provider.client()
            first = await self._ask(client, backend.name, "reorder? the limit is 60", None, {})
            second = await self._ask(client, backend.name, "bill", first.id, FORMAT)
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
    recorder = ScenarioRecorder(Puppet(buyer))
    heard = await live.converse(recorder)
    recorder.save(tmp_path / "buyer.yaml", "buyer")
    backend = ScriptedBackend.from_file(tmp_path / "buyer.yaml")
    assert backend.is_scripted
    assert not recorder.is_scripted
    assert await replayed.converse(backend) == heard
    assert replayed.calls == live.calls
    assert "Order PO-120: 120 kg for 870.60 EUR, about 871." in heard[0]


async def test_other_facts_give_other_calls_and_another_answer() -> None:
    """What came from tools is read from them anew; nothing of the recorded run is said."""
    recorder = ScenarioRecorder(Puppet(buyer))
    await Shop(120, 7.255).converse(recorder)
    shop = Shop(240, 10.5)
    first, second = await shop.converse(ScriptedBackend(recorder.scenario("buyer")))
    assert shop.calls[1] == ("order", {"kilos": 240, "to": "Nairobi"})
    assert first.startswith("Order PO-240: 240 kg for 2,520.00 EUR, about 2520. It is Kenya AA;")
    assert first.endswith("60 was the limit. f'{{x}}' 99")
    assert json.loads(second) == {"paid": 2520.0, "of": 2, "ok": True}


async def test_what_no_tool_said_is_named() -> None:
    """Numbers that came neither from a tool nor from the user stay, and the recorder tells."""
    recorder = ScenarioRecorder(Puppet(buyer))
    await Shop(120, 7.255).converse(recorder)
    assert recorder.untraced == ["99"]


async def test_sources_are_cited_by_their_call() -> None:
    """A mark becomes `cite`, since marks count up in every run anew."""

    def search(request: BackendRequest) -> Sequence[BackendOutput]:
        return [
            BackendText("So it is [S4].")
            if len(request.history) > 1
            else ProposedCall("stock", "{}")
        ]

    recorder = ScenarioRecorder(Puppet(search))
    asked = BackendMessage("user", "?")
    await _drain(recorder, BackendRequest("puppet", [asked]))
    turns = [
        asked,
        BackendCall("1", "stock", "{}"),
        BackendCallResult("1", "stock", "t", None, ("S3", "S4")),
    ]
    await _drain(recorder, BackendRequest("puppet", turns))
    assert recorder.scenario().turns[0].steps[1].say == "So it is {{ cite stock 1 }}."


async def test_a_question_asked_again_replaces_what_was_answered() -> None:
    """A client that repeats a request leaves one step, and nothing recorded is an error."""
    recorder = ScenarioRecorder(Puppet(lambda request: [BackendText("hello")]))
    with pytest.raises(UsageError, match="nothing recorded"):
        recorder.text()
    for _ in range(2):
        await _drain(recorder, BackendRequest("puppet", [BackendMessage("user", "hi")]))
    assert len(recorder.scenario().turns[0].steps) == 1


async def test_a_second_conversation_is_refused() -> None:
    """Two conversations in one scenario would be a story that never was."""
    recorder = ScenarioRecorder(Puppet(lambda request: [BackendText("hello")]))
    await _drain(recorder, BackendRequest("puppet", [BackendMessage("user", "hi")]))
    with pytest.raises(BackendFailed, match="one conversation"):
        await _drain(recorder, BackendRequest("puppet", [BackendMessage("user", "another")]))


async def _drain(backend: ModelBackend, request: BackendRequest) -> list[BackendOutput]:
    return [piece async for piece in backend.propose(request)]
