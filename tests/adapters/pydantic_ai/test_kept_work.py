"""A prompt that is not answered keeps what was paid for, and can go on from there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.adapters.openai.loopback_adapter import QUICK, add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Body, Json, call, message, response
from tests.adapters.pydantic_ai.codecs.loopback_server import model_at
from tests.adapters.pydantic_ai.handwritten_scripts import scripted
from tests.adapters.pydantic_ai.recording_server import stage
from tests.adapters.pydantic_ai.recordings import Recorded
from toolcrib import PromptEvaluationError, PromptResponse, Session, SqliteStore
from toolcrib.adapters.openai import Budget
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.errors import UsageError
from toolcrib.ledger.prompt_events import AnswerRejected, ModelResponded
from toolcrib.session.transcript import transcript


@dataclass
class Sum:
    """What a prompt asks for."""

    total: int


SEARCH: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "q", "queries": ["q"]},
}
PICTURE: Json = {
    "type": "image_generation_call",
    "id": "ig_1",
    "status": "completed",
    "result": "iVBORw0KGgo=",
    "output_format": "png",
}
UNFIT = response(SEARCH, message('{"total": "many"}'), id="resp_unfit")
FIT = response(message('{"total": 3}'), id="resp_fit")
CUT = response(SEARCH, message("It is"), status="incomplete", id="resp_cut") | {
    "incomplete_details": {"reason": "max_output_tokens"}
}

Evaluate = Callable[..., PromptResponse[Any]]
Heard = list[Json]


def on_openai(
    script: Sequence[Json | Body], use: Callable[[Evaluate, Evaluate], Any]
) -> tuple[Any, Heard]:
    with bench(*script) as (adapter, provider):
        return use(adapter.evaluate, adapter.resume), provider.bodies


def through_pydantic_ai(
    script: Sequence[Json | Body], use: Callable[[Evaluate, Evaluate], Any]
) -> tuple[Any, Heard]:
    with stage() as server, asyncio.Runner() as runner:
        lines = [each for body in script for each in _lines(body)]
        server.play(lines)
        model: Any = runner.run(_entered(server.url))
        adapter = PydanticAIAdapter(model, retry=QUICK)

        def evaluate(prompt: Any, **facts: Any) -> PromptResponse[Any]:
            return runner.run(adapter.evaluate_async(prompt, **facts))

        def resume(prompt: Any, **facts: Any) -> PromptResponse[Any]:
            return runner.run(adapter.resume_async(prompt, **facts))

        return use(evaluate, resume), server.asked


def _lines(body: Any) -> list[Recorded]:
    if isinstance(body, Body):
        (line,) = scripted("openai-responses", response())
        return [Recorded(line.provider, line.wire, body.body, [], body.status)]
    return scripted("openai-responses", body)


async def _entered(url: str) -> Any:
    async with model_at(url, "openai-responses", "gpt-5.4") as model:
        return model


class Way(Protocol):
    """An adapter on a provider that says what its script says."""

    def __call__(
        self, script: Sequence[Json | Body], use: Callable[[Evaluate, Evaluate], Any]
    ) -> tuple[Any, Heard]: ...


every_way = pytest.mark.parametrize(
    ("way", "stream"),
    [
        pytest.param(on_openai, False, id="openai-blocking"),
        pytest.param(on_openai, True, id="openai-streamed"),
        pytest.param(through_pydantic_ai, False, id="pydantic_ai-blocking"),
        pytest.param(through_pydantic_ai, True, id="pydantic_ai-streamed"),
    ],
)
both_histories = pytest.mark.parametrize("history", ["server", "client"])


def failed(evaluate: Callable[[], PromptResponse[Any]]) -> PromptEvaluationError:
    with pytest.raises(PromptEvaluationError) as caught:
        evaluate()
    return caught.value


@every_way
def test_an_unfit_answer_is_sent_back(way: Way, stream: bool) -> None:
    """Hosted tools, 8: the model is told what was wrong with its answer and answers again; both
    requests count, what ran stays, and the text is that of the answer alone.
    """
    session = Session()

    found, asked = way(
        [UNFIT, FIT],
        lambda evaluate, _: evaluate(ask(output=Sum), session=session, stream=stream),
    )

    assert found.output == Sum(3)
    assert (found.text, found.usage.requests, found.usage.input_tokens) == ('{"total": 3}', 2, 20)
    assert [name for name, _ in found.invocations] == ["web_search"]
    assert "Answer again" in str(asked[1]["input"])
    assert "/total" in str(asked[1]["input"])
    (rejected,) = happened(session, AnswerRejected)
    assert "/total" in rejected.problem
    assert [e.what for e in transcript(session.records())].count("rejected") == 1


@both_histories
@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
def test_either_history_takes_the_correction(history: str, stream: bool) -> None:
    """Hosted tools, 8: a provider that keeps the history is sent the correction alone, any other
    the rejected answer too.
    """
    with bench(UNFIT, FIT, history=history) as (adapter, provider):
        found = adapter.evaluate(ask(output=Sum), stream=stream)

    sent = provider.bodies[1]
    assert found.output == Sum(3)
    if history == "server":
        assert sent["previous_response_id"] == "resp_unfit"
        assert len(sent["input"]) == 1
    else:
        assert [item["type"] for item in sent["input"]] == [
            "message",
            "web_search_call",
            "message",
            "message",
        ]


@every_way
def test_the_model_is_asked_again_at_most_so_often(way: Way, stream: bool) -> None:
    """Hosted tools, 8: after the bound there is an error, with everything that was paid for."""
    session = Session()

    error, asked = way(
        [UNFIT, UNFIT, FIT],
        lambda evaluate, _: failed(
            lambda: evaluate(ask(output=Sum), session=session, stream=stream)
        ),
    )

    assert len(asked) == 2
    assert (error.phase, error.can_resume) == ("parse", True)
    assert error.text == '{"total": "many"}'
    assert [name for name, _ in error.invocations] == ["web_search", "web_search"]
    assert (error.usage.requests, error.usage.output_tokens) == (2, 10)
    assert error.cost is not None
    assert len(error.request_ids) == 2
    assert (error.session, error.session_id, error.turn) == (session, session.session_id, 1)


@every_way
@pytest.mark.parametrize("retries", [0, 1])
def test_resume_asks_again(way: Way, stream: bool, retries: int) -> None:
    """Hosted tools, 8: to go on after an answer that did not fit is to ask again, not to read the
    same answer for ever.
    """
    session = Session()
    options: dict[str, Any] = {"session": session, "stream": stream, "output_retries": retries}

    def use(evaluate: Evaluate, resume: Evaluate) -> PromptResponse[Any]:
        failed(lambda: evaluate(ask(output=Sum), **options))
        return resume(ask(output=Sum), **options)

    found, asked = way([*[UNFIT] * (retries + 1), FIT], use)

    assert (found.output, len(asked)) == (Sum(3), retries + 2)
    assert found.usage.requests == retries + 2
    assert len(happened(session, AnswerRejected)) == retries + 1


def test_another_process_goes_on_after_a_rejection(tmp_path: Path) -> None:
    """Hosted tools, 8: that the model is asked again is in the ledger, so whoever resumes sends the
    correction, once, and does not judge the rejected answer again.
    """
    path = tmp_path / "toolcrib.sqlite3"
    refused = Body({"error": {"message": "no", "type": "invalid_request_error"}}, 400)

    async def begin() -> PromptEvaluationError:
        with bench(UNFIT, refused, history="client") as (adapter, _), SqliteStore(path) as store:
            async with await Session.open(store, "s") as session:
                with pytest.raises(PromptEvaluationError) as caught:
                    await adapter.evaluate_async(ask(output=Sum), session=session)
                return caught.value

    async def go_on() -> tuple[PromptResponse[Any], list[AnswerRejected], Json]:
        with bench(FIT, history="client") as (adapter, provider), SqliteStore(path) as store:
            async with await Session.open(store, "s") as session:
                found = await adapter.resume_async(ask(output=Sum), session=session)
                return found, happened(session, AnswerRejected), provider.bodies[0]

    error = asyncio.run(begin())
    found, rejected, sent = asyncio.run(go_on())

    assert (error.phase, error.can_resume, error.session_id) == ("request", True, "s")
    assert error.text == '{"total": "many"}'
    assert (found.output, found.usage.requests, len(rejected)) == (Sum(3), 2, 1)
    assert len([item for item in sent["input"] if "Answer again" in str(item)]) == 1


def test_a_conversation_keeps_the_correction() -> None:
    """Hosted tools, 8: a later turn that follows knows why the model answered twice."""
    session = Session()
    with bench(UNFIT, FIT, response(message("Yes.")), history="client") as (adapter, provider):
        adapter.evaluate(ask(output=Sum), session=session)
        adapter.evaluate(ask(text="Sure?"), session=session, follows=True)

    roles = [item.get("role", item["type"]) for item in provider.bodies[2]["input"]]
    assert roles == ["user", "web_search_call", "assistant", "user", "assistant", "user"]


def test_the_budget_bounds_the_retries() -> None:
    """Hosted tools, 8: where no further request may be made, the answer's fault is the error."""
    with bench(UNFIT, FIT) as (adapter, provider):
        error = failed(lambda: adapter.evaluate(ask(output=Sum), budget=Budget(max_steps=1)))

    assert (error.phase, len(provider.bodies)) == ("parse", 1)


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2"])
def test_a_bound_is_a_whole_number(retries: Any) -> None:
    """A misspelt bound is refused before anything is sent."""
    with bench() as (adapter, provider), pytest.raises(UsageError, match="output_retries"):
        adapter.evaluate(ask(output=Sum), output_retries=retries)

    assert provider.bodies == []


@every_way
def test_a_cut_answer_keeps_its_text(way: Way, stream: bool) -> None:
    """Hosted tools, 8: what was said before it was cut off, what ran and what it cost."""
    session = Session()

    def use(evaluate: Evaluate, resume: Evaluate) -> Any:
        error = failed(lambda: evaluate(ask(), session=session, stream=stream))
        return error, resume(ask(), session=session, stream=stream)

    (error, found), _ = way([CUT, response(message("It is so."))], use)

    assert (error.phase, error.reason, error.can_resume) == ("response", "incomplete", True)
    assert (error.text, [name for name, _ in error.invocations]) == ("It is", ["web_search"])
    assert (error.usage.input_tokens, error.usage.output_tokens) == (10, 5)
    assert (found.text, found.usage.requests) == ("It is so.", 2)


@every_way
def test_a_refusal_is_not_worth_a_resumption(way: Way, stream: bool) -> None:
    """Hosted tools, 8: the same words would be refused again."""
    filtered = response(message("It"), status="incomplete") | {
        "incomplete_details": {"reason": "content_filter"}
    }

    error, _ = way([filtered], lambda evaluate, _: failed(lambda: evaluate(ask(), stream=stream)))

    assert (error.phase, error.reason, error.can_resume) == ("response", "refused", False)
    assert (error.text, error.usage.requests) == ("It", 1)


@every_way
def test_a_lost_request_keeps_the_steps_before_it(way: Way, stream: bool) -> None:
    """Hosted tools, 8: an error in a later step carries the earlier ones."""
    refused = Body({"error": {"message": "no", "type": "invalid_request_error"}}, 400)
    first = response(SEARCH, message("Let me add."), call("add", {"a": 1, "b": 2}))

    error, _ = way(
        [first, refused], lambda evaluate, _: failed(lambda: evaluate(ask(add), stream=stream))
    )

    assert (error.phase, error.can_resume, error.text) == ("request", True, "Let me add.")
    assert [name for name, _ in error.invocations] == ["web_search"]
    assert error.usage.input_tokens == 10
    assert error.session is not None
    assert len(happened(error.session, ModelResponded)) == 1


def test_a_spent_budget_keeps_what_was_found() -> None:
    """Hosted tools, 8: pictures too; with a larger budget `resume` goes on."""
    first = response(PICTURE, call("add", {"a": 1, "b": 2}))
    with bench(first, response(message("Done."))) as (adapter, _):
        error = failed(lambda: adapter.evaluate(ask(add), budget=Budget(max_steps=1)))
        assert error.session is not None
        found = adapter.resume(ask(add), session=error.session)

    assert (error.phase, error.reason, error.can_resume) == ("budget", "max_steps", True)
    ((name, drawn),) = error.invocations
    assert name == "image_generation"
    assert drawn.value.data == b"\x89PNG\r\n\x1a\n"
    assert found.text == "Done."


def test_an_error_before_the_turn_has_nothing_to_keep() -> None:
    """Where nothing was sent, nothing was paid for."""
    with bench() as (adapter, _):
        error = failed(lambda: adapter.evaluate(ask(text="$missing")))

    assert (error.phase, error.usage, error.session, error.can_resume) == (
        "render",
        None,
        None,
        False,
    )
