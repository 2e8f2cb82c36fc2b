"""Spans of prompts, and of the steps in which a model answers.

A turn of an agent that is not ours says nothing when it ends without an answer. Such a turn is
found to be over when its task is done, when another prompt starts, or at the latest when the
instrumentation is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current
from opentelemetry.trace import set_span_in_context

from toolcrib.session.events import PromptResumed
from toolcrib.session.turns import OpenTurn, turn_here
from toolcrib.telemetry.content import as_messages
from toolcrib.telemetry.conventions import (
    AGENT_NAME,
    CONVERSATION_ID,
    INPUT_MESSAGES,
    INVOKE_AGENT,
    OPERATION_NAME,
    OTHER,
    OUTPUT_MESSAGES,
    PROMPT_OUTCOME,
    PROMPT_RESUMED,
    PROVIDER_NAME,
    REQUEST_MODEL,
    TURN,
    Attributes,
    provider_name,
)
from toolcrib.telemetry.here import run_here
from toolcrib.telemetry.spans import fail, nanoseconds
from toolcrib.telemetry.steps import Step

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from toolcrib.session.events import (
        ModelAsked,
        ModelResponded,
        PromptAnswered,
        ToolInvoked,
        TurnEnded,
        TurnOutcome,
    )
    from toolcrib.telemetry.spans import Spans
    from toolcrib.telemetry.steps import Prompted

TaskDone = Callable[["asyncio.Task[Any]"], None]


@dataclass(slots=True, eq=False)
class TurnSpans:
    """The spans of one turn. One that nobody announced has none of its own."""

    last_at: float
    span: Span | None = None
    prompt: Prompted | None = None
    asked: ModelAsked | None = None
    """The request that has no answer yet."""
    step: Step | None = None
    waiting: set[str] = field(default_factory=set[str])
    """Calls that somebody was asked about and nobody has decided."""
    task: asyncio.Task[Any] | None = None
    on_done: TaskDone | None = None


class Turns:
    """The turns in which models are asked now."""

    def __init__(self, spans: Spans, *, captures_content: bool) -> None:
        self._spans = spans
        self._captures_content = captures_content
        self._open: dict[OpenTurn, TurnSpans] = {}

    def parent(self, turn: OpenTurn | None) -> Context:
        """What a span belongs to: what the handler is doing whose run this code is part of, or
        the innermost prompt, or else what the application is doing.
        """
        here, run = get_current(), run_here()
        while turn is not None and not (run is not None and run.turn is turn):
            found = self._open.get(turn)
            if found is not None and found.span is not None:
                return set_span_in_context(found.span, here)
            turn = turn.outer
        return here

    def agent(self, turn: OpenTurn | None) -> str | None:
        """The prompt that a turn evaluates."""
        found = None if turn is None else self._open.get(turn)
        return None if found is None or found.prompt is None else found.prompt.prompt_name

    def start(self, event: Prompted) -> None:
        """A prompt goes to a model, for the first time or again."""
        turn = turn_here()
        if turn is None:
            return
        span = self._spans.start(
            f"{INVOKE_AGENT} {event.prompt_name}",
            event.at,
            self._facts(event),
            self.parent(turn.outer),
        )
        self._keep(turn, TurnSpans(event.at, span, event))

    def request(self, event: ModelAsked) -> None:
        """The model is asked now."""
        spans = self._here()
        if spans is not None:
            spans.asked, spans.last_at = event, event.at

    def answer(self, event: ModelResponded) -> None:
        """A step is over, but for the calls that the provider ran in it."""
        turn = turn_here()
        spans = None if turn is None else self._open.get(turn)
        if turn is not None and spans is None:
            spans = self._keep(turn, TurnSpans(event.at))
        asked_at = event.at if spans is None else spans.last_at
        prompt = None if spans is None else spans.prompt
        step = Step.of(event, asked_at, prompt, self._spans, self.parent(turn))
        if spans is None:
            step.end()
            return
        _end_step(spans)
        spans.step, spans.last_at, spans.asked = step, event.at, None

    def move(self, at: float) -> None:
        """Something else happened in this turn: the next request was not made before."""
        spans = self._here()
        if spans is not None:
            spans.last_at = at

    def ask(self, call_id: str, at: float) -> None:
        """A call of this turn may wait for somebody."""
        spans = self._here()
        if spans is not None:
            spans.waiting.add(call_id)
            spans.last_at = at

    def decide(self, call_id: str, at: float) -> None:
        """It waits no more."""
        spans = self._here()
        if spans is not None:
            spans.waiting.discard(call_id)
            spans.last_at = at

    def invoked(self, event: ToolInvoked) -> None:
        """A call of this turn is over, here or at the provider."""
        self.decide(event.call_id, event.at)
        spans = self._here()
        if event.origin == "provider" and spans is not None and spans.step is not None:
            spans.step.note(event, self._spans, captures_content=self._captures_content)

    def finish(self, event: PromptAnswered) -> None:
        """The model gave its answer."""
        turn = turn_here()
        spans = None if turn is None else self._open.pop(turn, None)
        if spans is None:
            return
        _forget_task(spans)
        _end_step(spans)
        if spans.span is not None:
            spans.span.set_attribute(PROMPT_OUTCOME, "completed")
            if self._captures_content:
                spans.span.set_attribute(OUTPUT_MESSAGES, as_messages("assistant", event.text))
            spans.span.end(nanoseconds(event.at))

    def end(self, event: TurnEnded) -> None:
        """Nobody works on a turn any more. If it was answered, that is known already."""
        turn = turn_here()
        spans = None if turn is None else self._open.get(turn)
        if turn is not None and spans is not None:
            _forget_task(spans)
            self._give_up(turn, event.at, event.outcome)

    def close(self) -> None:
        """End what still goes on: nobody will hear how."""
        for turn in list(self._open):
            self._give_up(turn)

    def _here(self) -> TurnSpans | None:
        turn = turn_here()
        return None if turn is None else self._open.get(turn)

    def _keep(self, turn: OpenTurn, spans: TurnSpans) -> TurnSpans:
        for each in list(self._open):
            if each.is_over:
                self._give_up(each)

        def done(_: asyncio.Task[Any]) -> None:
            self._give_up(turn, turn.session.clock())

        spans.task, spans.on_done = _task_here(), done
        if spans.task is not None:
            spans.task.add_done_callback(done)
        self._open[turn] = spans
        return spans

    def _give_up(
        self, turn: OpenTurn, at: float | None = None, outcome: TurnOutcome | None = None
    ) -> None:
        """End the spans of a turn that had no answer; without `at`, when it was last heard of."""
        # Before it is forgotten: the request that has no answer belongs to its span.
        parent = self.parent(turn)
        spans = self._open.pop(turn, None)
        if spans is None:
            return
        ends_at = spans.last_at if at is None else max(at, spans.last_at)
        problem = None if spans.step is None else spans.step.problem
        _end_step(spans)
        if spans.asked is not None:
            Step.unanswered(spans.asked, ends_at, spans.prompt, self._spans, parent)
        if spans.span is None:
            return
        outcome = outcome or ("waiting" if spans.waiting else "failed")
        spans.span.set_attribute(PROMPT_OUTCOME, outcome)
        if outcome in ("failed", "cancelled"):
            fail(spans.span, problem or ("cancelled" if outcome == "cancelled" else OTHER))
        spans.span.end(nanoseconds(ends_at))

    def _facts(self, event: Prompted) -> Attributes:
        facts: Attributes = {
            OPERATION_NAME: INVOKE_AGENT,
            AGENT_NAME: event.prompt_name,
            PROVIDER_NAME: provider_name(event.adapter),
            REQUEST_MODEL: event.model,
            CONVERSATION_ID: event.session_id,
            TURN: event.turn,
        }
        if isinstance(event, PromptResumed):
            facts[PROMPT_RESUMED] = True
        elif self._captures_content:
            facts[INPUT_MESSAGES] = as_messages("user", event.text)
        return facts


def _end_step(spans: TurnSpans) -> None:
    if spans.step is not None:
        spans.step.end()
        spans.step = None


def _forget_task(spans: TurnSpans) -> None:
    if spans.task is not None and spans.on_done is not None:
        spans.task.remove_done_callback(spans.on_done)


def _task_here() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
