"""The span of one step: a model was asked and has answered.

The provider may have run tools meanwhile. It rarely says for how long, so such calls are events
on the step's span, and spans of their own only where their time is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry.trace import SpanKind, set_span_in_context

from toolcrib.telemetry.content import call_content
from toolcrib.telemetry.conventions import (
    CHAT,
    CONVERSATION_ID,
    ERROR_TYPE,
    EXECUTE_TOOL,
    OPERATION_NAME,
    OTHER,
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
    provider_name,
)
from toolcrib.telemetry.metrics import labels_of
from toolcrib.telemetry.spans import fail, nanoseconds

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from toolcrib.session.events import (
        ModelAsked,
        ModelResponded,
        PromptResumed,
        PromptStarted,
        ToolInvoked,
    )
    from toolcrib.telemetry.spans import Spans


Prompted: TypeAlias = "PromptStarted | PromptResumed"
"""The prompt that a model answers, from its beginning or from where it stopped."""


@dataclass(slots=True, eq=False)
class Step:
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
        spans: Spans,
        parent: Context,
    ) -> Step:
        """The step that an event tells of, asked at `asked_at`."""
        model = prompt.model if prompt else event.model
        began_at = min(asked_at, event.at)
        span = _started(model, began_at, _facts(event, prompt) | _answer(event), spans, parent)
        problem = None if event.status in ("completed", "paused") else event.status
        if problem is not None:
            fail(span, problem)
        return Step(span, event.at, prompt.prompt_name if prompt else None, problem)

    @staticmethod
    def unanswered(
        event: ModelAsked, at: float, prompt: Prompted | None, spans: Spans, parent: Context
    ) -> None:
        """A step that was asked for and never answered, until `at`."""
        model = prompt.model if prompt else None
        span = _started(model, event.at, _facts(event, prompt), spans, parent)
        fail(span, OTHER)
        span.end(nanoseconds(max(at, event.at)))

    def note(self, event: ToolInvoked, spans: Spans, *, captures_content: bool) -> None:
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
    model: str | None, at: float, facts: Attributes, spans: Spans, parent: Context
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
