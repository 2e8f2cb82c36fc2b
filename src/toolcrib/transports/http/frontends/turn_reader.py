"""The events of a session as the parts of one turn, in the order in which a front end shows them.

Pieces that stream are shown as they come; what did not stream is shown when the whole is recorded,
so that a live turn, one that is followed from the middle and one of the ledger show the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from toolcrib.ledger.events import (
    ApprovalRequested,
    CallInDoubt,
    CallStarted,
    ToolEmitted,
    ToolInvoked,
    ToolOutput,
    ToolProgress,
)
from toolcrib.ledger.prompt_events import (
    SUMMARY_PROMPT,
    ArgumentsDelta,
    HostedToolProgress,
    ModelAsked,
    ModelResponded,
    PartialReply,
    PromptAnswered,
    PromptStarted,
    ReasoningDelta,
    TextDelta,
)
from toolcrib.ledger.question_events import QuestionAnswered, QuestionAsked, QuestionClosed
from toolcrib.runtime.model_items import answer_in, arguments_in, parsed_arguments, thought_in
from toolcrib.transports.http.frontends.pictures import pictures_of
from toolcrib.transports.http.frontends.turn_parts import (
    ArgumentsPiece,
    CallBegun,
    CallEnding,
    CallOver,
    CallProgress,
    CallReady,
    ProseBegun,
    ProseEnded,
    ProseKind,
    ProsePiece,
    QuestionShown,
    SourceShown,
    StepBegun,
    StepEnded,
    StepReset,
    TurnBegun,
    TurnPart,
)

if TYPE_CHECKING:
    from toolcrib.ledger.events import Event
    from toolcrib.ledger.prompt_events import PartialImage

_COUNTED = ("completed", "paused")
_IN_DOUBT = "Nobody recorded the end of this call; whether it took effect is not known."


@dataclass(slots=True)
class _ChatCall:
    """What the front end was shown of a call."""

    tool: str
    step: int | None
    is_ready: bool = False
    is_ended: bool = False
    arguments_text: str = ""


@dataclass(slots=True)
class _ReplyStep:
    """What was shown of the reply to one request."""

    number: int
    text: str = ""
    reasoning: str = ""
    reasoning_index: int = 0
    prose_count: int = 0


class TurnReader:
    """Reads the events of one turn. `turn` is its number, None until it is known: then the first
    prompt that starts is the one.
    """

    def __init__(self, turn: int | None = None) -> None:
        self.turn = turn
        self.has_text = False
        """Whether any text of the model was shown."""
        self._step: _ReplyStep | None = None
        self._prose: tuple[ProseKind, str] | None = None
        self._held_text = ""
        self._calls: dict[str, _ChatCall] = {}
        self._arguments: dict[str, Any] = {}

    @property
    def open_calls(self) -> frozenset[str]:
        """The calls that are shown and have not ended."""
        return frozenset(call_id for call_id, call in self._calls.items() if not call.is_ended)

    def waits_for(self, call_ids: frozenset[str]) -> bool:
        """Whether these calls, which the front end runs, are shown whole and no other is open."""
        is_shown = all(
            call_id in self._calls and self._calls[call_id].is_ready for call_id in call_ids
        )
        return bool(call_ids) and is_shown and self.open_calls == call_ids

    def read(self, event: Event) -> Iterator[TurnPart]:
        """The parts for one event; most events have none, or one."""
        match event:
            # A prompt that a tool evaluates has a parent, and its text is not for the person.
            case PromptStarted(turn=turn, parent_call_id=None) if (
                self.turn is None and event.prompt_name != SUMMARY_PROMPT
            ):
                self.turn = turn
                yield TurnBegun(event.session_id, turn)
            case ModelAsked() | ModelResponded() | PromptAnswered():
                if event.turn == self.turn:
                    yield from self._read_model(event)
            case PartialReply():
                if event.turn == self.turn:
                    yield from self._read_partial(event)
            case TextDelta() | ReasoningDelta() | ArgumentsDelta() | HostedToolProgress():
                if event.turn == self.turn and self._is_open(event.step):
                    yield from self._read_piece(event)
            case QuestionAsked() | QuestionAnswered() | QuestionClosed():
                yield from _question(event)
            case _:
                yield from self._read_call(event)

    def _read_model(
        self, event: ModelAsked | ModelResponded | PromptAnswered
    ) -> Iterator[TurnPart]:
        match event:
            case ModelAsked(step=step):
                if self._is_open(step):
                    # Whoever wrote the reply is gone, and it is asked for anew.
                    yield from self._reset()
                yield from self._begin_step(step)
            case ModelResponded():
                yield from self._responded(event)
            case PromptAnswered():
                yield from self._answered(event)
            case _:
                assert_never(event)

    def _is_open(self, step: int) -> bool:
        """Whether a step was heard from its start on; of any other, only the whole counts."""
        return self._step is not None and self._step.number == step

    def _read_partial(self, event: PartialReply) -> Iterator[TurnPart]:
        """Show a reply that was begun before the turn was followed, as far as it is written. Who
        follows on at another replica was shown a part of it.
        """
        yield from self._begin_step(event.step)
        step, reasoning = self._step, "\n\n".join(event.reasoning)
        assert step is not None, "a step was begun just now"
        is_shown = event.text.startswith(step.text) and reasoning.startswith(step.reasoning)
        if not is_shown or (step.text and reasoning != step.reasoning):
            yield from self._reset()
        step.reasoning_index = max(0, len(event.reasoning) - 1)
        yield from self._whole("reasoning", _rest(reasoning, step.reasoning))
        yield from self._whole("text", _rest(event.text, step.text))
        for call in event.calls:
            yield from self._begin_call(call.call_id, call.tool, is_hosted=False)
            shown = self._calls[call.call_id].arguments_text
            self._calls[call.call_id].arguments_text = call.text
            if rest := _rest(call.text, shown):
                yield ArgumentsPiece(call.call_id, rest)

    def _read_piece(
        self, event: TextDelta | ReasoningDelta | ArgumentsDelta | HostedToolProgress
    ) -> Iterator[TurnPart]:
        match event:
            case TextDelta(text=text, is_restart=is_restart):
                if is_restart:
                    yield from self._reset(keeps_reasoning=True)
                yield from self._whole("text", text)
            case ReasoningDelta():
                yield from self._thinks(event)
            case ArgumentsDelta(call_id=call_id, tool=tool, text=text):
                yield from self._begin_call(call_id, tool, is_hosted=False)
                self._calls[call_id].arguments_text += text
                if text:
                    yield ArgumentsPiece(call_id, text)
            case HostedToolProgress(call_id=call_id, tool=tool):
                yield from self._begin_call(call_id, tool, is_hosted=True)
                yield CallProgress(call_id, tool, "hosted", _hosted_facts(event))
            case _:
                assert_never(event)

    def _thinks(self, event: ReasoningDelta) -> Iterator[TurnPart]:
        step = self._step
        assert step is not None, "pieces of no step are not read"
        if event.is_restart:
            yield from self._reset()
        elif event.index != step.reasoning_index and step.reasoning:
            yield from self._end_prose()
            step.reasoning += "\n\n"
        step.reasoning_index = event.index
        yield from self._whole("reasoning", event.text)

    def _read_call(self, event: Event) -> Iterator[TurnPart]:
        match event:
            case CallStarted(call_id=call_id, tool=tool):
                if call_id in self._arguments or call_id in self._calls:
                    yield from self._ready(call_id, tool.name, self._arguments_of(call_id))
            case ToolProgress() | ToolOutput() | ToolEmitted():
                yield from self._progress(event)
            case CallInDoubt(call_id=call_id, tool=tool) if call_id in self.open_calls:
                self._calls[call_id].is_ended = True
                yield CallOver(
                    call_id, tool.name, "failed", None, _IN_DOUBT, failure_kind="in_doubt"
                )
            case ToolInvoked(turn=turn, parent_call_id=None) if turn == self.turn:
                yield from self._invoked(event)
            case _:
                return

    def _arguments_of(self, call_id: str) -> Any:
        if call_id in self._arguments:
            return self._arguments[call_id]
        return parsed_arguments(self._calls[call_id].arguments_text)

    def skip(self, event: Event) -> None:
        """Read an event that the front end was shown before, in a response that has ended."""
        for _ in self.read(event):
            pass
        if isinstance(event, ApprovalRequested):
            request = event.request
            for _ in self.show_call(request.call_id, request.tool.name, request.arguments):
                pass
        for _ in self.end():
            pass

    def show_call(self, call_id: str, tool: str, arguments: Any) -> Iterator[TurnPart]:
        """Show a call that waits, if it is not shown yet."""
        yield from self._ready(call_id, tool, arguments)

    def show_answer(self, text: str) -> Iterator[TurnPart]:
        """Show an answer of which no piece and no record was read."""
        yield from self._whole("text", text)
        yield from self.end()

    def end(self) -> Iterator[TurnPart]:
        """End what is open: nothing more comes."""
        yield from self._flush()
        yield from self._end_prose()
        if self._step is not None:
            yield StepEnded(self._step.number)
            self._step = None

    def _begin_step(self, number: int) -> Iterator[TurnPart]:
        if self._step is not None and self._step.number == number:
            return
        yield from self.end()
        self._step = _ReplyStep(number)
        yield StepBegun(number)

    def _reset(self, *, keeps_reasoning: bool = False) -> Iterator[TurnPart]:
        """Take back what was shown of the step: the reply is void, or begins anew."""
        step = self._step
        if step is None or not (step.text or step.reasoning):
            return
        yield from self._end_prose()
        yield StepReset(step.number)
        reasoning = step.reasoning if keeps_reasoning else ""
        step.text = step.reasoning = self._held_text = ""
        gone = [
            call_id
            for call_id, call in self._calls.items()
            if call.step == step.number and not call.is_ended
        ]
        for call_id in gone:
            del self._calls[call_id]
        yield from self._whole("reasoning", reasoning)

    def _whole(self, kind: ProseKind, text: str) -> Iterator[TurnPart]:
        if not text:
            return
        if self._prose is None or self._prose[0] != kind:
            yield from self._end_prose()
            self._prose = kind, self._new_part_id(kind)
            yield ProseBegun(*self._prose)
        step = self._step
        if step is not None and kind == "text":
            step.text += text
        elif step is not None:
            step.reasoning += text
        self.has_text = self.has_text or kind == "text"
        yield ProsePiece(*self._prose, text)

    def _new_part_id(self, kind: ProseKind) -> str:
        step = self._step
        if step is None:
            return f"{kind}-{self.turn}"
        step.prose_count += 1
        return f"{kind}-{self.turn}-{step.number}-{step.prose_count}"

    def _end_prose(self) -> Iterator[TurnPart]:
        prose, self._prose = self._prose, None
        if prose is not None:
            yield ProseEnded(*prose)

    def _responded(self, event: ModelResponded) -> Iterator[TurnPart]:
        yield from self._begin_step(event.step)
        if event.status not in _COUNTED:
            yield from self._reset()
            return
        assert self._step is not None, "a step was begun just now"
        self._arguments |= arguments_in(event.items)
        answer = answer_in(event.items)
        if answer and not answer.startswith(self._step.text):
            # Pieces were lost: the reader was too slow for them.
            yield from self._reset(keeps_reasoning=True)
        yield from self._whole("reasoning", _rest(thought_in(event.items), self._step.reasoning))
        yield from self._end_prose()
        # Calls that the provider ran are recorded next, and belong before the text about them.
        self._held_text = _rest(answer, self._step.text)
        if self._step.text:
            yield from self._flush()

    def _flush(self) -> Iterator[TurnPart]:
        text, self._held_text = self._held_text, ""
        yield from self._whole("text", text)

    def _answered(self, event: PromptAnswered) -> Iterator[TurnPart]:
        yield from self._flush()
        if not self.has_text:
            yield from self._whole("text", event.text)
        yield from self._end_prose()
        yield from _sources(event)

    def _ready(
        self, call_id: str, tool: str, arguments: Any, *, is_hosted: bool = False
    ) -> Iterator[TurnPart]:
        call = self._calls.get(call_id)
        if call is not None and call.is_ready:
            return
        if not is_hosted:
            yield from self._flush()
        yield from self._end_prose()
        yield from self._begin_call(call_id, tool, is_hosted=is_hosted)
        self._calls[call_id].is_ready = True
        yield CallReady(call_id, tool, arguments, is_hosted)

    def _begin_call(self, call_id: str, tool: str, *, is_hosted: bool) -> Iterator[TurnPart]:
        if call_id in self._calls:
            return
        yield from self._end_prose()
        step = None if self._step is None else self._step.number
        self._calls[call_id] = _ChatCall(tool, step)
        yield CallBegun(call_id, tool, is_hosted)

    def _progress(self, event: ToolProgress | ToolOutput | ToolEmitted) -> Iterator[TurnPart]:
        if event.call_id not in self.open_calls:
            return
        match event:
            case ToolProgress(current=current, total=total, message=message):
                facts = {"current": current, "total": total, "message": message}
                yield CallProgress(event.call_id, event.tool, "progress", facts)
            case ToolOutput(chunk=chunk):
                yield CallProgress(event.call_id, event.tool, "output", {"text": chunk})
            case ToolEmitted(type=kind, data=data):
                facts = {"type": kind, "data": data}
                yield CallProgress(event.call_id, event.tool, "emitted", facts)

    def _invoked(self, event: ToolInvoked) -> Iterator[TurnPart]:
        is_hosted = event.origin == "provider"
        yield from self._ready(event.call_id, event.name, event.params, is_hosted=is_hosted)
        call = self._calls[event.call_id]
        if call.is_ended:
            return
        call.is_ended = True
        yield CallOver(
            event.call_id,
            event.name,
            _ending(event),
            event.message if event.value is None else event.value,
            event.message,
            is_hosted,
            None if event.failure is None else event.failure.kind,
            event.artifact_id,
        )
        if is_hosted:
            yield from pictures_of(event)


def _ending(event: ToolInvoked) -> CallEnding:
    if event.success:
        return "done"
    is_denied = event.failure is not None and event.failure.kind == "denied"
    return "denied" if is_denied else "failed"


def _rest(whole: str, shown: str) -> str:
    """What of the whole is not shown yet; nothing where something else was shown."""
    return whole[len(shown) :] if whole.startswith(shown) else ""


def _question(event: QuestionAsked | QuestionAnswered | QuestionClosed) -> Iterator[TurnPart]:
    if not isinstance(event, QuestionAsked):
        yield QuestionShown(event.question_id, event.call_id, is_open=False)
        return
    question = event.question
    yield QuestionShown(
        question.question_id,
        event.call_id,
        question.tool.name,
        question.text,
        question.schema,
        question.is_secret,
    )


def _hosted_facts(event: HostedToolProgress) -> dict[str, Any]:
    image = event.image
    facts = {
        "capability": event.capability,
        "status": event.status,
        "code": event.code,
        "output": event.output,
        "arguments": event.arguments,
        "queries": list(event.queries) or None,
        "url": event.url,
        "image": image and {"index": image.index, "url": _data_url(image)},
    }
    return {name: value for name, value in facts.items() if value is not None}


def _data_url(image: PartialImage) -> str:
    return f"data:{image.media_type};base64,{image.base64}"


def _sources(event: PromptAnswered) -> Iterator[TurnPart]:
    """Every source once, however often it is cited."""
    shown: set[str] = set()
    for source in event.sources:
        source_id = source.url or source.file_id or source.title
        if source_id in shown:
            continue
        shown.add(source_id)
        title = source.title or source_id
        file_name = None if source.kind == "page" else title
        yield SourceShown(source_id, title, source.url, file_name)
