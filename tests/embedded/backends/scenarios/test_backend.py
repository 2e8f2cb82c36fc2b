"""The scripted backend: it finds its place in the conversation, and takes all facts from tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.embedded.scripted_provider import function, scripted
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendInput,
    BackendMessage,
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendTool,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend
from toolcrib.embedded.web.folder import WebFolder
from toolcrib.errors import BackendFailed

STORY = """
name: clerk
turns:
  - steps:
      - think: let me see
        calls:
          - {tool: look, arguments: {id: 7}, as: first}
          - {tool: price, arguments: {}, as: price}
      - calls: [{tool: look, arguments: {id: "{{ first.next }}"}, as: second}]
      - say:
          - "{{ second.name }} costs {{ price }} and comes on {{ second.day }}"
          - "{{ second.name }} costs {{ price }}"
  - when: bill
    steps:
      - answer: {sum: "{{ price }}", paid: "{{ second.paid }}"}
        otherwise: {sum: "{{ price }}", paid: null}
  - steps: [{say: "As I said, {{ second.name }}."}]
"""
TOOLS = [BackendTool("look", "", {}), BackendTool("price", "", {})]


async def proposed(backend: ScriptedBackend, turns: list[BackendInput]) -> list[BackendOutput]:
    request = BackendRequest("clerk", turns, tools=TOOLS)
    return [piece async for piece in backend.propose(request)]


def said(pieces: list[BackendOutput]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, BackendText))


def call(call_id: str, name: str, value: Any) -> list[BackendInput]:
    return [BackendCall(call_id, name, "{}"), BackendCallResult(call_id, name, str(value), value)]


ASKED: list[BackendInput] = [BackendMessage("user", "how much is it?")]
LOOKED = [*call("1", "look", {"next": 9}), *call("2", "price", 3.5)]
TOLD = [
    *ASKED,
    *LOOKED,
    *call("3", "look", {"name": "Tea"}),
    BackendMessage("assistant", "Tea costs 3.5"),
]


async def test_every_step_follows_from_the_conversation() -> None:
    """Each proposal is made by a new backend that knows nothing but the conversation."""
    first = await proposed(scripted(STORY), ASKED)
    assert first == [
        BackendReasoning("let me see"),
        ProposedCall("look", '{"id": 7}'),
        ProposedCall("price", "{}"),
    ]
    second = await proposed(scripted(STORY), [*ASKED, *LOOKED])
    assert second == [ProposedCall("look", '{"id": 9}')]
    last = [*ASKED, *LOOKED, *call("3", "look", {"name": "Tea", "day": "Monday"})]
    assert said(await proposed(scripted(STORY), last)) == "Tea costs 3.5 and comes on Monday"


async def test_answers_are_told_apart_by_their_tools() -> None:
    """Answers that come in another order than their calls are still those of their calls."""
    turns: list[BackendInput] = [
        *ASKED,
        BackendCall("2", "price", "{}"),
        BackendCall("1", "look", "{}"),
        BackendCallResult("1", "look", "", {"next": 12}),
        BackendCallResult("2", "price", "", 3),
    ]
    assert await proposed(scripted(STORY), turns) == [ProposedCall("look", '{"id": 12}')]


async def test_the_first_text_whose_facts_are_there_is_said() -> None:
    """A text that lacks a fact gives way to the next one, and the last one has to hold."""
    assert said(await proposed(scripted(STORY), TOLD[:-1])) == "Tea costs 3.5"
    broken = [*ASKED, *LOOKED, *call("3", "look", {})]
    with pytest.raises(BackendFailed, match=r"cannot continue: 'second\.name' was not answered"):
        await proposed(scripted(STORY), broken)


async def test_earlier_answers_can_be_spoken_of_later() -> None:
    """What tools answered to one question is a fact in the next ones too."""
    later = [*TOLD, BackendMessage("user", "what was it?")]
    assert said(await proposed(scripted(STORY), later)) == "As I said, Tea."


async def test_when_takes_the_words_and_leaves_the_order_to_the_others() -> None:
    """A turn with `when` is for what the user says; it does not use up a place of the others."""
    bill: list[BackendInput] = [*TOLD, BackendMessage("user", "the BILL, please")]
    assert said(await proposed(scripted(STORY), bill)) == '{"sum": 3.5, "paid": null}'
    after: list[BackendInput] = [
        *bill,
        BackendMessage("assistant", "..."),
        BackendMessage("user", "and what was it?"),
    ]
    assert said(await proposed(scripted(STORY), after)) == "As I said, Tea."


async def test_otherwise_is_only_for_a_missing_fact() -> None:
    """`answer` is said as JSON with its types, as long as it lacks nothing."""
    paid = [*ASKED, *LOOKED, *call("3", "look", {"name": "Tea", "paid": True})]
    turns: list[BackendInput] = [*paid, BackendMessage("user", "bill")]
    assert said(await proposed(scripted(STORY), turns)) == '{"sum": 3.5, "paid": true}'


async def test_nothing_is_said_to_what_is_not_written() -> None:
    """A question beyond the scenario fails and says that the backend is scripted."""
    turns = [*TOLD, *[BackendMessage("user", "more") for _ in range(3)]]
    with pytest.raises(BackendFailed, match="this backend is scripted"):
        await proposed(scripted(STORY), turns)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({"left": 0}, "enough"),
        ({"left": []}, "enough"),
        ({}, "enough"),
        ({"left": 3}, ProposedCall("price", "{}")),
    ],
)
async def test_a_step_with_a_condition_is_passed_over(seen: Any, expected: Any) -> None:
    """What is missing, empty, false or zero does not hold; the next step comes then."""
    backend = scripted(
        """
name: a
turns:
  - steps:
      - calls: [{tool: look}]
      - {only_if: "{{ look.left }}", calls: [{tool: price}]}
      - {only_if: "{{ price }}", say: "costs {{ price }}"}
      - say: enough
"""
    )
    looked = [*ASKED, *call("1", "look", seen)]
    pieces = await proposed(backend, looked)
    assert (said(pieces) or pieces[0]) == expected
    priced = await proposed(
        backend, [*ASKED, *call("1", "look", {"left": 3}), *call("2", "price", 8)]
    )
    assert said(priced) == "costs 8"


async def test_a_scenario_that_ends_with_calls_says_so() -> None:
    """After the last step there is nothing to make up."""
    backend = scripted("name: a\nturns: [{steps: [{calls: [{tool: look}]}]}]")
    with pytest.raises(BackendFailed, match="is over"):
        await proposed(backend, [*ASKED, *call("1", "look", 1)])


async def test_a_tool_that_is_not_offered_is_not_called() -> None:
    """The scenario's tools have to be in the request."""
    backend = scripted("name: a\nturns: [{steps: [{calls: [{tool: fly}]}]}]")
    with pytest.raises(BackendFailed, match="offers no tool 'fly'; it offers look, price"):
        await proposed(backend, ASKED)


LOOP = """
name: clerk
turns:
  - steps:
      - calls: [{tool: look, arguments: {id: 7}}]
      - say: "It is {{ look.name }}."
  - steps: [{say: "Still {{ look.name }}."}]
"""


async def start(client: AsyncOpenAI) -> tuple[str, str]:
    tools: Any = [function("look")]
    response = await client.responses.create(model="clerk", input="what?", tools=tools)
    assert response.metadata == {"toolcrib_backend": "scripted"}
    [item] = response.output
    assert item.type == "function_call"
    return response.id, item.call_id


async def go_on(client: AsyncOpenAI, previous: str, given: Any) -> Any:
    tools: Any = [function("look")]
    return await client.responses.create(
        model="clerk", previous_response_id=previous, input=given, tools=tools
    )


async def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    """A new process with the same folder goes on in the middle of a turn, and remembers facts."""
    async with EmbeddedProvider(scripted(LOOP), data=tmp_path) as provider:
        previous, call_id = await start(provider.client())
    output = {"type": "function_call_output", "call_id": call_id, "output": '{"name": "Tea"}'}
    async with EmbeddedProvider(scripted(LOOP), data=tmp_path) as provider:
        told = await go_on(provider.client(), previous, [output])
    async with EmbeddedProvider(scripted(LOOP), data=tmp_path) as provider:
        again = await go_on(provider.client(), told.id, "sure?")
    assert (told.output_text, again.output_text) == ("It is Tea.", "Still Tea.")


async def test_a_client_that_keeps_the_history_itself_gets_the_same() -> None:
    """Without a stored response the items alone tell where the scenario stands."""
    async with EmbeddedProvider(scripted(LOOP)) as provider:
        client, tools = provider.client(), [function("look")]
        items: list[Any] = [{"role": "user", "content": "what?"}]
        first = await client.responses.create(model="clerk", input=items, tools=tools, store=False)
        [call] = first.output
        output = {"type": "function_call_output", "call_id": call.call_id}
        items += [call.model_dump(exclude_none=True), {**output, "output": '{"name": "Tea"}'}]
        told = await client.responses.create(model="clerk", input=items, tools=tools, store=False)
    assert told.output_text == "It is Tea."


async def test_another_page_gives_another_answer(tmp_path: Path) -> None:
    """What is said is read from the file that the tool found, not from the scenario."""
    story = """
name: clerk
turns:
  - steps:
      - calls: [{tool: web_search, arguments: {query: opening hours}, as: web}]
      - say: "{{ web.results.0.text | first_line }} {{ cite web 0 }}"
"""

    async def answer(page: str) -> str:
        (tmp_path / "hours.html").write_text(f"<title>Opening hours</title><p>{page}</p>")
        web = WebFolder(tmp_path, "https://shop.example")
        async with EmbeddedProvider(scripted(story), web=[web]) as provider:
            tools: Any = [{"type": "web_search"}]
            client = provider.client()
            response = await client.responses.create(model="clerk", input="when?", tools=tools)
            return response.output_text

    assert "open until six" in await answer("Opening hours: open until six")
    assert "open until nine" in await answer("Opening hours: open until nine")
