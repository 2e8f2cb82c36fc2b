"""What goes wrong between us and real providers: recovered from, or told as what it is."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.adapters.pydantic_ai.faulty_server import Body, Cut, Dropped, Reply, Silence, Text
from tests.adapters.pydantic_ai.provider_dialects import (
    ANTHROPIC,
    GOOGLE,
    KEY,
    SPEECHES,
    Responses,
    Speech,
)
from tests.adapters.pydantic_ai.scripted_adapter import ask, happened, wire_bench
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import EventBus, PromptEvaluationError, Session, tool
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.options import Budget
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.ledger.prompt_events import ModelResponded, PromptAnswered
from toolcrib.testing import Recorder

RATE_LIMITED = Body(
    {"error": {"message": "Slow down.", "type": "rate_limit_error", "code": "rate_limit_exceeded"}},
    429,
    {"retry-after-ms": "1"},
)
BROKEN = Body({"error": {"message": "The server had an error.", "type": "api_error"}}, 500)
THREE = Retry(attempts=3, first_seconds=0.001)

both = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
every = pytest.mark.parametrize("provider", SPEECHES)


def failing(adapter: PydanticAIAdapter, **options: Any) -> PromptEvaluationError:
    """The error that the evaluation ends with."""
    with pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(), **options)
    assert caught.value.prompt_name == "test:ask"
    return caught.value


def error(text: str, status: int, kind: str = "invalid_request_error", **headers: str) -> Body:
    told = {"message": text, "type": kind, "code": kind}
    return Body({"type": "error", "error": told}, status, headers)


@both
@every
@pytest.mark.parametrize(
    "fault",
    ["429", "500", "dropped", "cut_json", "page", "cut_line", "cut_early", "cut_late"],
)
def test_a_passing_fault_is_tried_again(provider: str, fault: str, stream: bool) -> None:
    """A rate limit, a server's fault, a lost line and a reply that breaks off, early or late, do
    not end a prompt that can go on; half an answer is no answer.
    """
    speech = SPEECHES[provider]
    answer = speech.says("It is fine, as far as anybody can tell.")
    faults: dict[str, Reply] = {
        "429": RATE_LIMITED,
        "500": BROKEN,
        "dropped": Dropped(),
        "cut_json": Text('{"id": "resp_1", "output": [{"type": "mess'),
        "page": Text("<html>", "text/html"),
        "cut_line": Cut(answer, 0.6),
        "cut_early": Cut(answer, 0.4, is_lost=False),
        "cut_late": Cut(answer, 0.7, is_lost=False),
    }
    session = Session()
    with wire_bench(speech, faults[fault], answer) as (adapter, server):
        found = adapter.evaluate(ask(), session=session, stream=stream)

    assert found.text == "It is fine, as far as anybody can tell."
    assert server.bodies[0] == server.bodies[1]
    assert len(server.requests) == 2
    assert len(happened(session, ModelResponded)) == 1


@every
def test_the_providers_own_retries_are_off(provider: str) -> None:
    """An SDK that retries knows no deadline: as many requests are made as we say."""
    speech = SPEECHES[provider]
    with wire_bench(speech, *[BROKEN] * 9, retry=THREE) as (adapter, server):
        told = failing(adapter)

    assert len(server.requests) == 3
    assert (told.phase, told.request_id) == ("request", "req_3")
    assert "the provider did not answer" in str(told)
    assert "The server had an error." in str(told)


@every
def test_a_rate_limit_that_stays_is_told_with_how_long_to_wait(provider: str) -> None:
    """After the last attempt the error has phase request, the prompt's name and the request id."""
    speech = SPEECHES[provider]
    with wire_bench(speech, *[RATE_LIMITED] * 3, retry=THREE) as (adapter, server):
        told = failing(adapter)

    assert (told.phase, told.request_id) == ("request", "req_3")
    assert "It asks to wait 0.001 seconds." in str(told)
    assert len(server.requests) == 3


def test_a_lost_line_is_told_when_it_stays_lost() -> None:
    """There is no request id when no reply ever came."""
    with wire_bench(ANTHROPIC, *[Dropped()] * 3, retry=THREE) as (adapter, _):
        told = failing(adapter)

    assert (told.phase, told.request_id) == ("request", None)


@every
def test_a_reply_that_breaks_off_again_and_again_is_told(provider: str) -> None:
    """Nothing of what was heard until then is given out as the answer."""
    speech = SPEECHES[provider]
    cut = Cut(speech.says("It is fine, as far as anybody can tell."), 0.7, is_lost=False)
    session = Session()
    with wire_bench(speech, *[cut] * 3, retry=THREE) as (adapter, _):
        told = failing(adapter, session=session, stream=True)

    assert told.phase == "request"
    assert "ended before the response was complete" in str(told)
    assert happened(session, PromptAnswered) == []


@every
@pytest.mark.parametrize(
    "fault",
    [
        error("No such thing.", 400),
        error("Wrong key.", 401, "authentication_error"),
        error("Not yours.", 403, "permission_error"),
        error("No such model.", 404, "not_found_error"),
        error("You ran out of credits.", 402, "billing_error"),
        error("Not now.", 503, "api_error", **{"x-should-retry": "false"}),
    ],
    ids=["400", "401", "403", "404", "quota", "told"],
)
def test_what_would_be_said_again_is_not_asked_again(provider: str, fault: Body) -> None:
    """A wrong request, a wrong key and an empty account are told at once."""
    speech = SPEECHES[provider]
    with wire_bench(speech, fault, speech.says("Fine.")) as (adapter, server):
        told = failing(adapter)

    assert (told.phase, told.request_id) == ("request", "req_1")
    assert len(server.requests) == 1
    assert fault.body["error"]["message"] in str(told)


@every
def test_a_server_that_asks_for_too_long_a_pause_is_not_waited_for(provider: str) -> None:
    """A prompt does not hang for an hour because a header says so."""
    later = error("Later.", 429, "rate_limit_error", **{"retry-after": "3600"})
    with wire_bench(SPEECHES[provider], later) as (adapter, server):
        told = failing(adapter)

    assert "It asks to wait 3600 seconds" in str(told)
    assert len(server.requests) == 1


@both
@every
def test_the_key_is_in_no_error_event_or_log(
    provider: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that repeats the key does not bring it into anything that is kept or shown."""
    caplog.set_level(logging.DEBUG, "toolcrib")
    session, bus = Session(), EventBus()
    recorder = Recorder(bus)
    fault = error(f"Incorrect API key provided: {KEY}", 401, "authentication_error")
    with wire_bench(SPEECHES[provider], fault) as (adapter, server):
        told = failing(adapter, session=session, bus=bus, stream=stream)

    assert KEY in str(server.requests[0].headers)
    assert KEY not in str(told)
    assert "[secret]" in str(told)
    assert (told.__cause__, told.__context__) == (None, None)
    assert KEY not in repr(recorder.events)
    assert KEY not in caplog.text
    assert KEY.encode() not in b"".join(record.payload or b"" for record in session.records())


@both
@every
def test_no_answer_within_the_budget_ends_the_prompt(provider: str, stream: bool) -> None:
    """A provider that says nothing does not hold a prompt past its seconds."""
    with wire_bench(SPEECHES[provider], Silence()) as (adapter, _):
        told = failing(adapter, budget=Budget(seconds=0.2), stream=stream)

    assert told.phase == "budget"
    assert "the deadline passed" in str(told)


@both
@every
@pytest.mark.parametrize(
    ("stop", "status", "text"),
    [
        ("length", "incomplete", "the answer was cut off"),
        ("filter", "refused", "the answer was filtered"),
    ],
)
def test_an_unfinished_response_is_no_answer(
    provider: str, stop: str, status: str, text: str, stream: bool
) -> None:
    """E5, C33, P14: filtered and cut output raises in phase response, with an id to find it by; it
    is not given out as if it were the answer.
    """
    speech = SPEECHES[provider]
    session = Session()
    with wire_bench(speech, speech.says("Half an ans", stop)) as (adapter, server):
        told = failing(adapter, session=session, stream=stream)

    (event,) = happened(session, ModelResponded)
    assert (told.phase, event.status) == ("response", status)
    assert told.request_id is not None
    assert text in str(told)
    assert happened(session, PromptAnswered) == []
    assert len(server.requests) == 1


def refusals() -> list[tuple[Speech, Json, str]]:
    """How providers say that the model will not, and its words."""
    chat: Any = SPEECHES["openai-chat"]
    answers: Any = SPEECHES["openai-responses"]
    refused = {"type": "refusal", "refusal": "I will not."}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    details = {"type": "refusal", "category": "cyber", "explanation": "I will not."}
    blocked: Json = {"promptFeedback": {"blockReason": "SAFETY"}, "responseId": "resp_1"}
    return [
        (ANTHROPIC, ANTHROPIC.answer(stop="refusal", stop_details=details), "I will not."),
        (GOOGLE, blocked, "SAFETY"),
        (chat, chat.answer({"content": None, "refusal": "I will not."}), "I will not."),
        (answers, answers.calls({**item, "content": [refused]}), "I will not."),
    ]


@pytest.mark.parametrize(
    ("speech", "refusal", "words"), refusals(), ids=lambda each: getattr(each, "provider", "")
)
def test_a_refusal_is_told_in_the_models_words(speech: Speech, refusal: Json, words: str) -> None:
    """P14: a refusal is no answer, and no fault that passes."""
    with wire_bench(speech, refusal) as (adapter, server):
        told = failing(adapter)

    assert told.phase == "response"
    assert words in str(told)
    assert len(server.requests) == 1


@both
@pytest.mark.parametrize("provider", ["anthropic", "google", "openai-responses"])
def test_an_empty_response_is_no_answer(provider: str, stream: bool) -> None:
    """A response without answer and call is a fault, not an empty text."""
    speech = SPEECHES[provider]
    empty = {
        "anthropic": ANTHROPIC.answer({"type": "thinking", "thinking": "Hm.", "signature": "s"}),
        "google": GOOGLE.answer({"text": "Hm.", "thought": True}),
        "openai-responses": Responses().calls({"type": "reasoning", "id": "rs_1", "summary": []}),
    }
    with wire_bench(speech, empty[provider]) as (adapter, _):
        told = failing(adapter, stream=stream)

    assert told.phase == "response"
    assert "the response is empty" in str(told)


@both
@pytest.mark.filterwarnings("ignore:BORED is not a valid FinishReason")
@pytest.mark.parametrize("provider", ["anthropic", "google", "groq", "openai-chat"])
def test_a_reason_that_nobody_knows_does_not_spoil_an_answer(provider: str, stream: bool) -> None:
    """E4: a provider may stop for a reason of next year's; what it said is still there."""
    chat: Any = SPEECHES["openai-chat"]
    answers = {
        "anthropic": ANTHROPIC.answer({"type": "text", "text": "Fine."}, stop="bored"),
        "google": GOOGLE.answer({"text": "Fine."}, stop="BORED"),
        "groq": chat.answer({"content": "Fine."}, stop="bored"),
        "openai-chat": chat.answer({"content": "Fine."}, stop="bored"),
    }
    with wire_bench(SPEECHES[provider], answers[provider]) as (adapter, _):
        found = adapter.evaluate(ask(), stream=stream)

    assert found.text == "Fine."


@both
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "bored"}}, "incomplete (bored)"),
        ({"status": "cancelled"}, "the provider failed (cancelled)"),
        ({"status": "failed"}, "the provider failed (failed)"),
        ({"status": "in_progress"}, "incomplete"),
    ],
    ids=["incomplete", "cancelled", "failed", "unfinished"],
)
def test_what_the_responses_api_did_not_finish_is_no_answer(
    fields: Json, text: str, stream: bool
) -> None:
    """E5, P14: whatever the reason: half an answer is not given out."""
    speech = Responses()
    with wire_bench(speech, {**speech.says("Half an ans"), **fields}) as (adapter, server):
        told = failing(adapter, stream=stream)

    assert told.phase == "response"
    assert text in str(told)
    assert len(server.requests) == 1


def test_a_provider_that_failed_says_at_which() -> None:
    """E5: the provider's own word for it is told, and that it can be asked again."""
    failed = GOOGLE.answer({"text": ""}, stop="MALFORMED_FUNCTION_CALL")
    with wire_bench(GOOGLE, failed) as (adapter, _):
        told = failing(adapter)

    assert told.phase == "response"
    assert "MALFORMED_FUNCTION_CALL" in str(told)
    assert "`resume` asks for it again" in str(told)


@every
def test_a_tool_runs_once_however_often_the_answer_is_asked_for(provider: str) -> None:
    """A request that is tried again brings the same outputs; no call is made twice."""
    speech = SPEECHES[provider]
    ran: list[int] = []

    @tool
    def count() -> int:
        """Count how often this is called."""
        ran.append(1)
        return len(ran)

    asking = speech.calls(speech.call("count", {}))
    faults = [BROKEN, Dropped(), RATE_LIMITED]
    with wire_bench(speech, asking, *faults, speech.says("Fine.")) as (adapter, server):
        found = adapter.evaluate(ask(count))

    assert (found.text, ran) == ("Fine.", [1])
    assert [speech.outputs(body) for body in server.bodies] == [[], *[["1"]] * 4]
