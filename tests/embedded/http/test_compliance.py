"""The behaviours that the Open Responses compliance suite asks of a server, over HTTP, streams and
sockets, each answer held to the SDK's own types.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.embedded.provider_server import Json, Place, Turn, listening
from tests.embedded.sdk_types import check_event, check_item, check_response
from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendUsage,
    ProposedCall,
)

PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WEATHER: Json = {
    "type": "function",
    "name": "weather",
    "description": "The weather somewhere.",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    },
}


def remembers(request: BackendRequest) -> Sequence[BackendOutput]:
    """A backend that calls a tool if it has one, and else says what it has heard."""
    last = request.history[-1]
    if request.tools and not isinstance(last, BackendCallResult):
        return [ProposedCall(request.tools[0].name, '{"place": "Rome"}'), BackendUsage(5, 3)]
    heard = [turn.text for turn in request.history if isinstance(turn, BackendMessage)]
    return [BackendText("heard: "), BackendText(" | ".join(heard)), BackendUsage(5, 3)]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with listening(remembers) as found:
        yield found


def says(role: str, text: str, **more: Any) -> Json:
    return {"type": "message", "role": role, "content": text, **more}


def asks(text: str, **more: Any) -> Json:
    return {"type": "response.create", "model": "puppet", "store": False, "input": text, **more}


def goes_on(text: str) -> Any:
    """A request that goes on from the first response of the connection."""
    return lambda turns: asks(text, previous_response_id=turns[0].response["id"])  # pyright: ignore


async def completed(place: Place, items: list[Json], **more: Any) -> Json:
    status, body = await place.post("/responses", {"model": "puppet", "input": items, **more})
    assert status == 200
    check_response(body)
    assert body["status"] == "completed"
    assert body["output"]
    return body


def text_of(response: Json) -> str:
    [item] = [each for each in response["output"] if each["type"] == "message"]
    return item["content"][0]["text"]


def check_turn(turn: Turn) -> Json:
    """A turn that came to a completed response, told in order."""
    for event in turn.events:
        check_event(event, is_socket=True)
    assert [each["sequence_number"] for each in turn.events] == list(range(len(turn.events)))
    assert turn.response["status"] == "completed"
    return turn.response


async def test_a_text_is_answered(place: Place) -> None:
    """A message alone gives a whole response."""
    body = await completed(place, [says("user", "hello")])
    assert text_of(body) == "heard: hello"


async def test_phases_of_earlier_messages_are_taken(place: Place) -> None:
    """An assistant's message may say whether it was a comment or the answer."""
    items = [
        says("assistant", "let me see", phase="commentary"),
        says("assistant", "four", phase="final_answer"),
        says("user", "again"),
    ]
    assert text_of(await completed(place, items)) == "heard: let me see | four | again"


async def test_phases_are_given_back(place: Place) -> None:
    """They are kept with the items, in the form of the output."""
    items = [says("assistant", "four", phase="final_answer"), says("user", "again")]
    body = await completed(place, items)
    listed: Any = await place.provider.client().responses.input_items.list(body["id"], order="asc")
    assert listed.data[0].phase == "final_answer"
    check_item(listed.data[0].to_dict())


async def test_a_stream_tells_every_step(place: Place) -> None:
    """Each event has its type's form, and the last one the whole response."""
    events = await place.stream({"model": "puppet", "input": [says("user", "count")]})
    for event in events:
        check_event(event)
    assert events[-1]["type"] == "response.completed"
    assert text_of(events[-1]["response"]) == "heard: count"


async def test_a_system_message_is_heard(place: Place) -> None:
    """It reaches the backend under its role."""
    await completed(place, [says("system", "be a pirate"), says("user", "hello")])
    assert place.puppet.requests[0].history[0] == BackendMessage("system", "be a pirate")


async def test_a_function_is_called(place: Place) -> None:
    """The call is an item with the arguments as JSON text."""
    body = await completed(place, [says("user", "weather?")], tools=[WEATHER])
    [call] = body["output"]
    assert (call["type"], call["name"]) == ("function_call", "weather")
    assert call["arguments"] == '{"place": "Rome"}'


async def test_an_image_is_taken(place: Place) -> None:
    """A part of a message may be an image."""
    parts = [
        {"type": "input_text", "text": "what is it"},
        {"type": "input_image", "image_url": PIXEL},
    ]
    await completed(place, [{"type": "message", "role": "user", "content": parts}])
    assert place.puppet.requests[0].history == [BackendMessage("user", "what is it", (PIXEL,))]


async def test_a_history_may_be_sent(place: Place) -> None:
    """Messages of both sides are the conversation."""
    items = [says("user", "I am Ada"), says("assistant", "Hello Ada"), says("user", "who am I")]
    assert text_of(await completed(place, items)) == "heard: I am Ada | Hello Ada | who am I"


async def test_a_socket_answers(place: Place) -> None:
    """The same events come over a socket."""
    [turn] = await place.talk(asks("count"))
    assert text_of(check_turn(turn)) == "heard: count"


async def test_a_socket_answers_one_after_the_other(place: Place) -> None:
    """Responses of one connection do not know each other unless they are told to."""
    first, second = await place.talk(asks("first"), asks("second"))
    assert text_of(check_turn(first)) == "heard: first"
    assert text_of(check_turn(second)) == "heard: second"


async def test_a_socket_goes_on_from_what_nobody_kept(place: Place) -> None:
    """The last response of a connection can be gone on from, though it is not stored."""
    first, second = await place.talk(asks("cobalt"), goes_on("which word"))
    check_turn(first)
    assert text_of(check_turn(second)) == "heard: cobalt | heard: cobalt | which word"


async def test_another_socket_does_not_know_what_nobody_kept(place: Place) -> None:
    """A new connection says so, and can begin anew."""
    [first] = await place.talk(asks("copper"))
    lost, anew = await place.talk(
        asks("go on", previous_response_id=first.response["id"]), asks("anew")
    )
    check_event(lost.last, is_socket=True)
    assert lost.code == "previous_response_not_found"
    assert text_of(check_turn(anew)) == "heard: anew"


async def test_a_response_that_never_was_is_not_gone_on_from(place: Place) -> None:
    """The error names what is missing, and the socket stays."""
    [turn] = await place.talk(asks("go on", previous_response_id="resp_never"))
    assert turn.code == "previous_response_not_found"
    assert turn.last["error"]["param"] == "previous_response_id"
    assert turn.last["status"] == 400


async def test_what_failed_cannot_be_gone_on_from(place: Place) -> None:
    """After a continuation that failed, the response before it is forgotten."""
    wrong = {"type": "function_call_output", "call_id": "call_none", "output": "1"}

    def fails(turns: Sequence[Turn]) -> Json:
        return {**asks("", previous_response_id=turns[0].response["id"]), "input": [wrong]}

    first, failed, stale = await place.talk(asks("ember"), fails, goes_on("stale"))
    check_turn(first)
    assert failed.last["type"] == "error"
    assert stale.code == "previous_response_not_found"


async def test_a_conversation_is_made_shorter(place: Place) -> None:
    """The user's messages stay, and one item stands for all else."""
    items = [says("user", "we launch on Tuesday"), says("assistant", "Tuesday it is")]
    status, body = await place.post(
        "/responses/compact", {"model": "puppet", "input": items, "prompt_cache_key": "k"}
    )
    assert (status, body["object"]) == (200, "response.compaction")
    assert [each["type"] for each in body["output"]] == ["message", "compaction"]
    check_item(body["output"][-1])


async def test_making_shorter_needs_a_model(place: Place) -> None:
    """What is required is named."""
    status, body = await place.post("/responses/compact", {"input": [says("user", "x")]})
    assert status == 400
    assert body["error"]["param"] == "model"


async def test_a_socket_goes_on_from_what_was_made_shorter(place: Place) -> None:
    """A compacted conversation can be continued, and the backend knows what was said."""
    items = [says("user", "the word is slate"), says("assistant", "I will remember")]
    _, shorter = await place.post("/responses/compact", {"model": "puppet", "input": items})
    body = {**asks(""), "input": [*shorter["output"], says("user", "which word")], "tools": []}
    [turn] = await place.talk(body)
    check_turn(turn)
    first, told, last = place.puppet.requests[-1].history
    assert (first, last) == (
        BackendMessage("user", "the word is slate"),
        BackendMessage("user", "which word"),
    )
    assert isinstance(told, BackendMessage)
    assert "assistant: I will remember" in told.text
