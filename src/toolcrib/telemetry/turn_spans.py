"""Spans of prompts, and of the steps in which a model answers.

An agent of another framework publishes no event when its turn ends without an answer. Such a turn
ends when its task is done, when another prompt starts, or when the instrumentation is closed.

A provider rarely says how long its hosted calls took. They are events on the step's span, and
spans of their own only where their duration is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from opentelemetry.context import get_current
from opentelemetry.trace import SpanKind, set_span_in_context

from toolcrib.ledger.prompt_events import PromptResumed
from toolcrib.session.turns import OpenTurn, turn_here
from toolcrib.telemetry.conventions import (
    AGENT_NAME,
    CHAT,
    CONVERSATION_ID,
    COST,
    ERROR_TYPE,
    EXECUTE_TOOL,
    INPUT_MESSAGES,
    INVOKE_AGENT,
    OPERATION_NAME,
    OTHER,
    OUTPUT_MESSAGES,
    PRINCIPAL,
    PROMPT_OUTCOME,
    PROMPT_RESUMED,
    PROVIDER_CALL,
    PROVIDER_NAME,
    REQUEST_MODEL,
    RESPONSE_ID,
    RESPONSE_MODEL,
    STEP,
    SYSTEM_INSTRUCTIONS,
    TOOL_CALL_ID,
    TOOL_PLACE,
    TURN,
    USAGE,
    Attributes,
    as_messages,
    as_parts,
    call_content,
    provider_name,
)
from toolcrib.telemetry.metrics import labels_of
from toolcrib.telemetry.spans import current_run, fail, nanoseconds

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from toolcrib.ledger.events import ToolInvoked
    from toolcrib.ledger.prompt_events import (
        ModelAsked,
        ModelResponded,
        PromptAnswered,
        PromptStarted,
        TurnEnded,
        TurnOutcome,
    )
    from toolcrib.telemetry.spans import SpanFactory


Prompted: TypeAlias = "PromptStarted | PromptResumed"
"""The start of a prompt's evaluation, from its beginning or resumed."""


@dataclass(slots=True, eq=False)
class StepSpan:
    """A step whose span stays open for the hosted calls in it."""

    span: Span
    at: float
    """When the model answered: the end of the span, however long it stays open."""
    agent: str | None
    problem: str | None
    """The status of a response that ends the turn."""

    @staticmethod
    def of(
        event: ModelResponded,
        requested_at: float,
        prompt: Prompted | None,
        spans: SpanFactory,
        parent: Context,
    ) -> StepSpan:
        """The step of a response, requested at `requested_at`."""
        model = prompt.model if prompt else event.model
        started_at = min(requested_at, event.at)
        span = _start(model, started_at, _facts(event, prompt) | _answer(event), spans, parent)
        problem = None if event.status in ("completed", "paused") else event.status
        if problem is not None:
            fail(span, problem)
        return StepSpan(span, event.at, prompt.prompt_name if prompt else None, problem)

    @staticmethod
    def unanswered(
        event: ModelAsked, at: float, prompt: Prompted | None, spans: SpanFactory, parent: Context
    ) -> None:
        """Record a step whose request got no response until `at`."""
        model = prompt.model if prompt else None
        span = _start(model, event.at, _facts(event, prompt), spans, parent)
        fail(span, OTHER)
        span.end(nanoseconds(max(at, event.at)))

    def add_call(self, event: ToolInvoked, spans: SpanFactory, *, captures_content: bool) -> None:
        """Record a hosted call of this step."""
        facts = self._call_facts(event, captures_content=captures_content)
        if event.duration_seconds <= 0:
            self.span.add_event(PROVIDER_CALL, facts, nanoseconds(self.at))
            return
        span = spans.start(
            f"{EXECUTE_TOOL} {event.name}",
            event.at - event.duration_seconds,
            facts,
            set_span_in_context(self.span),
        )
        if event.failure is not None:
            fail(span, event.failure.kind)
        span.end(nanoseconds(event.at))

    def end(self) -> None:
        """End the span."""
        self.span.end(nanoseconds(self.at))

    def _call_facts(self, event: ToolInvoked, *, captures_content: bool) -> Attributes:
        facts: Attributes = {
            OPERATION_NAME: EXECUTE_TOOL,
            **labels_of(event.tool, self.agent, event.capability),
            TOOL_CALL_ID: event.call_id,
            CONVERSATION_ID: event.session_id,
            TOOL_PLACE: "provider",
        }
        if event.provider is not None:
            facts[PROVIDER_NAME] = provider_name(event.provider)
        if event.failure is not None:
            facts[ERROR_TYPE] = event.failure.kind
        if event.cost is not None and (dollars := event.cost.dollars) is not None:
            facts[COST] = dollars
        if captures_content:
            facts |= call_content(event)
        return facts


def _start(
    model: str | None, at: float, facts: Attributes, spans: SpanFactory, parent: Context
) -> Span:
    name = f"{CHAT} {model}" if model else CHAT
    return spans.start(name, at, facts, parent, kind=SpanKind.CLIENT)


def _facts(event: ModelResponded | ModelAsked, prompt: Prompted | None) -> Attributes:
    facts: Attributes = {
        OPERATION_NAME: CHAT,
        CONVERSATION_ID: event.session_id,
        TURN: event.turn,
        STEP: event.step,
    }
    if prompt is not None:
        facts[PROVIDER_NAME] = provider_name(prompt.adapter)
        facts[REQUEST_MODEL] = prompt.model
    return facts


def _answer(event: ModelResponded) -> Attributes:
    facts: Attributes = {}
    if event.model is not None:
        facts[RESPONSE_MODEL] = event.model
    if event.response_id is not None:
        facts[RESPONSE_ID] = event.response_id
    if event.cost is not None and (dollars := event.cost.dollars) is not None:
        facts[COST] = dollars
    usage = {name: event.usage.get(key, 0) for key, name in USAGE.items()}
    return facts | {name: tokens for name, tokens in usage.items() if tokens}


TaskDone = Callable[["asyncio.Task[Any]"], None]


@dataclass(slots=True, eq=False)
class TurnSpans:
    """The spans of one turn. A turn without a started prompt has no span of its own."""

    last_at: float
    span: Span | None = None
    prompt: Prompted | None = None
    request: ModelAsked | None = None
    """The request that has no response yet."""
    step: StepSpan | None = None
    waiting: set[str] = field(default_factory=set[str])
    """The calls that wait for a decision."""
    task: asyncio.Task[Any] | None = None
    on_done: TaskDone | None = None


class TurnTracker:
    """The open turns, and their spans."""

    def __init__(self, spans: SpanFactory, *, captures_content: bool) -> None:
        self._spans = spans
        self._captures_content = captures_content
        self._open: dict[OpenTurn, TurnSpans] = {}

    def parent(self, turn: OpenTurn | None) -> Context:
        """The parent of a new span: the run of the handler that this code is part of, or the
        innermost prompt, or else the application's current span.
        """
        here, run = get_current(), current_run()
        while turn is not None and not (run is not None and run.turn is turn):
            spans = self._open.get(turn)
            if spans is not None and spans.span is not None:
                return set_span_in_context(spans.span, here)
            turn = turn.outer
        return here

    def agent(self, turn: OpenTurn | None) -> str | None:
        """The name of the prompt that a turn evaluates."""
        spans = None if turn is None else self._open.get(turn)
        return None if spans is None or spans.prompt is None else spans.prompt.prompt_name

    def start(self, event: Prompted) -> None:
        """Start the span of a prompt's evaluation."""
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
        """Note a request to the model."""
        spans = self._here()
        if spans is not None:
            spans.request, spans.last_at = event, event.at

    def answer(self, event: ModelResponded) -> None:
        """Record a response; the step stays open for its hosted calls."""
        turn = turn_here()
        spans = None if turn is None else self._open.get(turn)
        if turn is not None and spans is None:
            spans = self._keep(turn, TurnSpans(event.at))
        requested_at = event.at if spans is None else spans.last_at
        prompt = None if spans is None else spans.prompt
        step = StepSpan.of(event, requested_at, prompt, self._spans, self.parent(turn))
        if spans is None:
            step.end()
            return
        _end_step(spans)
        spans.step, spans.last_at, spans.request = step, event.at, None

    def move(self, at: float) -> None:
        """Note another activity of the turn: the next request starts no earlier."""
        spans = self._here()
        if spans is not None:
            spans.last_at = at

    def ask(self, call_id: str, at: float) -> None:
        """A call of this turn begins to wait for a decision."""
        spans = self._here()
        if spans is not None:
            spans.waiting.add(call_id)
            spans.last_at = at

    def decide(self, call_id: str, at: float) -> None:
        """A call of this turn no longer waits."""
        spans = self._here()
        if spans is not None:
            spans.waiting.discard(call_id)
            spans.last_at = at

    def invoked(self, event: ToolInvoked) -> None:
        """A call of this turn has ended, here or at the provider."""
        self.decide(event.call_id, event.at)
        spans = self._here()
        if event.origin == "provider" and spans is not None and spans.step is not None:
            spans.step.add_call(event, self._spans, captures_content=self._captures_content)

    def finish(self, event: PromptAnswered) -> None:
        """End the spans of a turn with an answer."""
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
        """End the spans of a turn that ended without an answer."""
        turn = turn_here()
        spans = None if turn is None else self._open.get(turn)
        if turn is not None and spans is not None:
            _forget_task(spans)
            self._give_up(turn, event.at, event.outcome)

    def close(self) -> None:
        """End the spans of the turns that are still open."""
        for turn in list(self._open):
            self._give_up(turn)

    def _here(self) -> TurnSpans | None:
        turn = turn_here()
        return None if turn is None else self._open.get(turn)

    def _keep(self, turn: OpenTurn, spans: TurnSpans) -> TurnSpans:
        for open_turn in list(self._open):
            if open_turn.is_over:
                self._give_up(open_turn)

        def done(_: asyncio.Task[Any]) -> None:
            self._give_up(turn, turn.session.clock())

        spans.task, spans.on_done = _current_task(), done
        if spans.task is not None:
            spans.task.add_done_callback(done)
        self._open[turn] = spans
        return spans

    def _give_up(
        self, turn: OpenTurn, at: float | None = None, outcome: TurnOutcome | None = None
    ) -> None:
        """End the spans of a turn without an answer, at `at` or at the time of its last event."""
        # Before the turn is removed: the request without a response is a child of its span.
        parent = self.parent(turn)
        spans = self._open.pop(turn, None)
        if spans is None:
            return
        ends_at = spans.last_at if at is None else max(at, spans.last_at)
        problem = None if spans.step is None else spans.step.problem
        _end_step(spans)
        if spans.request is not None:
            StepSpan.unanswered(spans.request, ends_at, spans.prompt, self._spans, parent)
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
        if event.principal is not None:
            facts[PRINCIPAL] = event.principal
        if isinstance(event, PromptResumed):
            facts[PROMPT_RESUMED] = True
        elif self._captures_content:
            facts[INPUT_MESSAGES] = as_messages("user", event.text)
            if event.instructions:
                facts[SYSTEM_INSTRUCTIONS] = as_parts(event.instructions)
        return facts


def _end_step(spans: TurnSpans) -> None:
    if spans.step is not None:
        spans.step.end()
        spans.step = None


def _forget_task(spans: TurnSpans) -> None:
    if spans.task is not None and spans.on_done is not None:
        spans.task.remove_done_callback(spans.on_done)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
