"""A mounted server that elicits: its question is put to the person behind the call."""

from __future__ import annotations

from typing import Any

import mcp_types
import pytest

from tests.mcp_client.mounted_servers import mounted, stdio
from toolcrib.approval import CallbackResponder, Question, QuestionResponse
from toolcrib.errors import NobodyToAsk, QuestionDeclined, QuestionExpired
from toolcrib.mcp_client.elicitation import NOT_OPENED, OPENED, ServerQuestions
from toolcrib.mcp_client.request_terms import RequestTerms
from toolcrib.mcp_client.running_calls import AskingCall, RunningCalls
from toolcrib.mcp_client.server_requests import ServerRequests

FORM = mcp_types.ElicitRequestFormParams(
    message="Which colour?",
    requested_schema={"type": "object", "properties": {"colour": {"type": "string"}}},
)


class Asked:
    """Stands for the context of a call, and answers with what it was told to."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.texts: list[str] = []

    tool_name = "tool"
    session_id = "s"

    def emit(self, type: str, data: Any) -> None:
        pass

    async def ask(self, text: str, schema: Any = None, choices: Any = None) -> Any:
        self.texts.append(text)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def call_with(answer: Any) -> tuple[AskingCall, Asked]:
    context: Any = Asked(answer)
    return AskingCall(context, lambda message: f"peer asks: {message}"), context


async def test_the_question_is_one_of_the_call() -> None:
    """The person behind the call reads which server asks, and the server gets the answer."""
    seen: list[Question] = []

    def answer(question: Question) -> object:
        seen.append(question)
        return {"colour": "red"}

    async with mounted(stdio("peer", "older")) as peer:
        peer.session.questions.responder = CallbackResponder(answer)
        done = await peer.call("peer_ask")

    assert "red" in done.text
    assert seen[0].text == "The MCP server `peer` asks: Which colour?"
    assert seen[0].call_id == done.call_id
    assert seen[0].schema["properties"]["colour"]["type"] == "string"


async def test_a_declined_question_is_declined_at_the_server() -> None:
    """MCP tells a refusal from a form that was closed, and so do we."""
    async with mounted(stdio("peer", "older")) as peer:
        peer.session.questions.responder = CallbackResponder(lambda _: QuestionResponse("decline"))
        done = await peer.call("peer_ask")

    assert "decline" in done.text


def asking() -> tuple[ServerQuestions, RunningCalls]:
    requests = ServerRequests("peer", RequestTerms())
    return ServerQuestions(requests), requests.calls


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ({"colour": "red"}, "accept"),
        (QuestionDeclined("no"), "decline"),
        (QuestionExpired("late"), "cancel"),
    ],
)
async def test_each_end_has_its_action(answer: Any, action: str) -> None:
    """What came of the question, in the words of the protocol."""
    (questions, running), (call, context) = asking(), call_with(answer)
    with running.of(call):
        result = await questions(None, FORM)

    assert result.action == action
    assert context.texts == ["peer asks: Which colour?"]


async def test_where_nobody_can_be_asked_the_server_hears_who_refused() -> None:
    """It is our client that cannot, and not the person who left the question."""
    (questions, running), (call, _) = asking(), call_with(NobodyToAsk("nobody is here."))
    with running.of(call):
        result = await questions(None, FORM)

    refused = "Toolcrib refused the request of the MCP server `peer`: nobody is here"
    assert (result.message, call.refusals) == (refused, [refused])


async def test_with_several_calls_nobody_is_asked_for_another() -> None:
    """A question that does not say of which call it is reaches nobody else's screen."""
    (questions, running), (first, asked), (second, other) = asking(), call_with({}), call_with({})
    running._running.extend([first, second])  # pyright: ignore[reportPrivateUsage]
    result = await questions(None, FORM)

    assert "belongs to no call" in result.message
    assert asked.texts == other.texts == []


async def test_in_the_task_of_its_call_a_question_is_known() -> None:
    """In the stateless protocol the question comes as the result of the call."""
    (questions, running), (first, asked), (second, other) = asking(), call_with({}), call_with({})
    with running.of(first), running.of(second):
        await questions(None, FORM)

    assert asked.texts == []
    assert len(other.texts) == 1


async def test_a_question_outside_of_calls_reaches_nobody() -> None:
    """A server cannot ask people out of the blue."""
    questions, _ = asking()
    result = await questions(None, FORM)

    assert "belongs to no call" in result.message


@pytest.mark.parametrize(("answer", "action"), [(OPENED, "accept"), (NOT_OPENED, "decline")])
async def test_an_address_is_shown_to_whoever_can_read_a_question(answer: str, action: str) -> None:
    """A client without the mode for addresses shows them as a question with two choices."""
    (questions, running), (call, asked) = asking(), call_with(answer)
    address = mcp_types.ElicitRequestURLParams(message="Log in", url="https://example.com")
    with running.of(call):
        result = await questions(None, address)

    assert result.action == action
    assert asked.texts == ["peer asks: Log in\n\nOpen this address: https://example.com"]
