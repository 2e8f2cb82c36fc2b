"""Spans of prompts, and of the steps in which a model answers.

A turn of an agent that is not ours says nothing when it ends without an answer. Such a turn is
found to be over when its task is done, when another prompt starts, or at the latest when the
instrumentation is closed.

The span of one step: a model was asked and has answered.

The provider may have run tools meanwhile. It rarely says for how long, so such calls are events
on the step's span, and spans of their own only where their time is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from opentelemetry.context import get_current
from opentelemetry.trace import SpanKind, set_span_in_context

from toolcrib.ledger.events import PromptResumed
from toolcrib.session.turns import OpenTurn, turn_here
from toolcrib.telemetry.conventions import (
    AGENT_NAME,
    CHAT,
    CONVERSATION_ID,
    ERROR_TYPE,
    EXECUTE_TOOL,
    INPUT_MESSAGES,
    INVOKE_AGENT,
    OPERATION_NAME,
    OTHER,
    OUTPUT_MESSAGES,
    PROMPT_OUTCOME,
    PROMPT_RESUMED,
    PROVIDER_CALL,
    PROVIDER_NAME,
    REQUEST_MODEL,
    RESPONSE_ID,
    RESPONSE_MODEL,
    STEP,
    TOOL_CALL_ID,
    TOOL_PLACE,
    TURN,
    USAGE,
    Attributes,
    as_messages,
    call_content,
    provider_name,
)
from toolcrib.telemetry.metrics import labels_of
from toolcrib.telemetry.run_context import current_run
from toolcrib.telemetry.spans import fail, nanoseconds

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from toolcrib.ledger.events import (
        ModelAsked,
        ModelResponded,
        PromptAnswered,
        PromptStarted,
        ToolInvoked,
        TurnEnded,
        TurnOutcome,
    )
    from toolcrib.telemetry.spans import SpanFactory


Prompted: TypeAlias = "PromptStarted | PromptResumed"
"""The prompt that a model answers, from its beginning or from where it stopped."""


@dataclass(slots=True, eq=False)
class StepSpan:
    """A step whose span is kept open for what the provider ran in it."""

    span: Span
    at: float
    """When the model had answered: then the span ends, however long it is kept open."""
    agent: str | None
    problem: str | None
    """Why nothing can follow from the answer."""

    @staticmethod
    def of(
        event: ModelResponded,
        asked_at: float,
        prompt: Prompted | None,
        spans: SpanFactory,
        parent: Context,
    ) -> StepSpan:
        """The step that an event tells of, asked at `asked_at`."""
        model = prompt.model if prompt else event.model
        began_at = min(asked_at, event.at)
        span = _started(model, began_at, _facts(event, prompt) | _answer(event), spans, parent)
        problem = None if event.status in ("completed", "paused") else event.status
        if problem is not None:
            fail(span, problem)
        return StepSpan(span, event.at, prompt.prompt_name if prompt else None, problem)

    @staticmethod
    def unanswered(
        event: ModelAsked, at: float, prompt: Prompted | None, spans: SpanFactory, parent: Context
    ) -> None:
        """A step that was asked for and never answered, until `at`."""
        model = prompt.model if prompt else None
        span = _started(model, event.at, _facts(event, prompt), spans, parent)
        fail(span, OTHER)
        span.end(nanoseconds(max(at, event.at)))

    def note(self, event: ToolInvoked, spans: SpanFactory, *, captures_content: bool) -> None:
        """A call that the provider ran in this step."""
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
        """Nothing more belongs to the step."""
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
        if captures_content:
            facts |= call_content(event)
        return facts


def _started(
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
    told = {name: event.usage.get(ours, 0) for ours, name in USAGE.items()}
    return facts | {name: tokens for name, tokens in told.items() if tokens}


TaskDone = Callable[["asyncio.Task[Any]"], None]


@dataclass(slots=True, eq=False)
class TurnSpans:
    """The spans of one turn. One that nobody announced has none of its own."""

    last_at: float
    span: Span | None = None
    prompt: Prompted | None = None
    asked: ModelAsked | None = None
    """The request that has no answer yet."""
    step: StepSpan | None = None
    waiting: set[str] = field(default_factory=set[str])
    """Calls that somebody was asked about and nobody has decided."""
    task: asyncio.Task[Any] | None = None
    on_done: TaskDone | None = None


class TurnTracker:
    """The turns in which models are asked now."""

    def __init__(self, spans: SpanFactory, *, captures_content: bool) -> None:
        self._spans = spans
        self._captures_content = captures_content
        self._open: dict[OpenTurn, TurnSpans] = {}

    def parent(self, turn: OpenTurn | None) -> Context:
        """What a span belongs to: what the handler is doing whose run this code is part of, or
        the innermost prompt, or else what the application is doing.
        """
        here, run = get_current(), current_run()
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
        step = StepSpan.of(event, asked_at, prompt, self._spans, self.parent(turn))
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
            StepSpan.unanswered(spans.asked, ends_at, spans.prompt, self._spans, parent)
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
