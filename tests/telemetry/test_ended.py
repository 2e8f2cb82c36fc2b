"""Prompts that end without an answer: they failed, or their calls wait."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from opentelemetry.context import get_current

from tests.adapters.openai.loopback_adapter import QUICK, add, ask, bench
from tests.adapters.openai.nested_prompt import (
    ANSWER,
    pay,
)
from tests.adapters.openai.scripted_provider import Body, Json, call, message, response
from tests.calls.payments import Says
from tests.runtime.host_runtime import SlowModel
from tests.telemetry.memory_collector import Collected, attributes, is_failed, seconds
from toolcrib import (
    Approve,
    EventBus,
    PromptEvaluationError,
    Session,
)
from toolcrib.adapters.openai import Governance, OpenAIAdapter
from toolcrib.testing import FakeClock, ScriptedOpenAI, calls

REFUSED = Body({"error": {"message": "no"}}, 400)
PROMPT = "invoke_agent test:ask"
CHAT = "chat test-model"


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (response(message("So"), status="incomplete"), "incomplete"),
        (response(status="failed", error={"code": "server_error", "message": "x"}), "failed"),
    ],
)
def test_a_step_from_which_nothing_follows(collected: Collected, status: Json, kind: str) -> None:
    """R43: the step failed, and the prompt with it; both say why in one word."""
    session = Session()
    collected.watch(session)

    with bench(status, status, status) as (adapter, _), pytest.raises(PromptEvaluationError):
        adapter.evaluate(ask(), session=session)

    span = collected.all(CHAT)[-1]
    assert (is_failed(span), attributes(span)["error.type"]) == (True, kind)
    prompt = collected.span(PROMPT)
    assert (is_failed(prompt), attributes(prompt)["error.type"]) == (True, kind)
    assert attributes(prompt)["toolcrib.prompt.outcome"] == "failed"


def test_a_request_that_was_never_answered(collected: Collected) -> None:
    """R43: the request has a span as long as it was waited for, and failed with its prompt."""
    session = Session()
    collected.watch(session)

    with bench(REFUSED) as (adapter, _), pytest.raises(PromptEvaluationError):
        adapter.evaluate(ask(), session=session)

    assert collected.names == [CHAT, PROMPT]
    assert collected.tree()[PROMPT] == [CHAT]
    assert attributes(collected.span(CHAT))["error.type"] == "_OTHER"
    assert attributes(collected.span(PROMPT))["error.type"] == "_OTHER"


async def test_a_failed_prompt_of_a_long_task_ends_at_once(collected: Collected) -> None:
    """R43: a task that goes on after a prompt failed keeps nothing open, and no context."""
    session = Session()
    collected.watch(session)
    before = get_current()

    with bench(REFUSED, ANSWER) as (adapter, _):
        with pytest.raises(PromptEvaluationError):
            await adapter.evaluate_async(ask(), session=session)
        assert get_current() is before
        assert is_failed(collected.span(PROMPT))
        await adapter.evaluate_async(ask(), session=session)

    assert [is_failed(span) for span in collected.all(PROMPT)] == [True, False]


def test_a_prompt_that_fails_after_a_decision_does_not_wait(collected: Collected) -> None:
    """R43: a question that was answered is not taken for the reason that a prompt ended."""
    session = Session()
    collected.watch(session)
    governance = Governance(approver=Says(Approve()))

    with (
        bench(response(call("pay")), REFUSED) as (adapter, _),
        pytest.raises(PromptEvaluationError),
    ):
        adapter.evaluate(ask(pay), session=session, governance=governance)

    assert attributes(collected.span(PROMPT))["toolcrib.prompt.outcome"] == "failed"


async def test_a_cancelled_prompt_says_so(collected: Collected) -> None:
    """R43: a prompt that somebody gave up ends then, as cancelled, with the request it was in."""
    session = Session()
    collected.watch(session)
    model = SlowModel()

    work = asyncio.create_task(model.adapter().evaluate_async(ask(), session=session))
    await model.is_asked.wait()
    work.cancel()
    await asyncio.wait([work])

    prompt = collected.span(PROMPT)
    assert attributes(prompt)["toolcrib.prompt.outcome"] == "cancelled"
    assert attributes(prompt)["error.type"] == "cancelled"
    assert collected.tree()[PROMPT] == ["chat m"]


async def test_closing_ends_a_prompt_that_goes_on(collected: Collected) -> None:
    """R43: nothing is lost when the program ends in the middle of a prompt."""
    session = Session()
    model = SlowModel()

    with collected.watch(session):
        work = asyncio.create_task(model.adapter().evaluate_async(ask(), session=session))
        await model.is_asked.wait()
        assert collected.spans == []
    work.cancel()
    await asyncio.wait([work])

    assert is_failed(collected.span(PROMPT))


async def test_a_prompt_that_waits_goes_on_elsewhere(collected: Collected) -> None:
    """R43: the prompt's span ends when its calls wait, which is no failure; what is resumed has a
    span of its own, under whoever resumes it.
    """
    session = Session()
    collected.watch(session)
    prompt = ask(pay)

    with bench(response(call("pay")), ANSWER) as (adapter, _):
        work = asyncio.create_task(adapter.evaluate_async(prompt, session=session))
        assert (await work).status == "waiting"
        waited = collected.span(PROMPT)
        assert collected.names == [CHAT, PROMPT]
        await session.approvals.decide("call_1", Approve(), by="jo")
        with collected.tracer.start_as_current_span("resumed"):
            await adapter.resume_async(prompt, session=session)

    assert not is_failed(waited)
    assert attributes(waited)["toolcrib.prompt.outcome"] == "waiting"
    _, resumed = collected.all(PROMPT)
    tree = collected.tree()
    assert tree["resumed"] == [PROMPT]
    assert tree[PROMPT] == [CHAT, "toolcrib.approval.wait", "execute_tool pay", CHAT]
    assert attributes(resumed)["toolcrib.prompt.resumed"] is True
    assert attributes(resumed)["toolcrib.prompt.outcome"] == "completed"
    assert attributes(collected.all(CHAT)[1])["gen_ai.provider.name"] == "openai"


class Thinking(ScriptedOpenAI):
    """Takes three seconds for each answer."""

    def __init__(self, clock: FakeClock, *outputs: list[Json]) -> None:
        super().__init__(*outputs)
        self._clock = clock

    def _answer(self, request: Any) -> Any:
        self._clock.advance(3.0)
        return super()._answer(request)


async def test_a_prompt_lasts_to_the_last_that_was_heard_of_it(collected: Collected) -> None:
    """R43: a step takes as long as the model; a prompt that fails ends with its last step, not
    when somebody finds out.
    """
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    watching = collected.watch(session)
    model = Thinking(clock, [calls("add", {"a": 1, "b": 2})], [])
    adapter = OpenAIAdapter(model="m", client=model.client(), retry=QUICK)

    with pytest.raises(PromptEvaluationError):
        await adapter.evaluate_async(ask(add), session=session)
    clock.advance(100.0)
    watching.close()

    assert [seconds(step) for step in collected.all("chat m")] == [(1_000.0, 3.0), (1_003.0, 3.0)]
    assert seconds(collected.span(PROMPT)) == (1_000.0, 6.0)


def test_a_request_that_failed_took_its_time(collected: Collected) -> None:
    """R43: where the prompt has a task of its own, its span lasts until that is done."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)
    adapter = OpenAIAdapter(model="m", client=Thinking(clock).client(), retry=QUICK)

    with pytest.raises(PromptEvaluationError):
        adapter.evaluate(ask(), session=session)
    adapter.close()

    assert seconds(collected.span(PROMPT)) == (1_000.0, 3.0)


async def test_a_prompt_that_is_over_is_forgotten(collected: Collected) -> None:
    """R43: a task that evaluates prompts for ever does not keep the sessions of all of them."""
    bus = EventBus()
    collected.watch(bus)
    session = Session(bus=bus)
    gone = weakref.ref(session)

    with bench(ANSWER) as (adapter, _):
        await adapter.evaluate_async(ask(), session=session)
        del session
        gc.collect()

        assert gone() is None
