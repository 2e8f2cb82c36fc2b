"""The parts of a turn as events of AG-UI 1.0.

The events are few and plain JSON, so they are written here: the package of the protocol would add a
dependency of 31 models for the eighteen of them that are sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from toolcrib.serving.refusals import as_bytes
from toolcrib.transports.http.frontends.turn_parts import (
    ApprovalShown,
    ArgumentsPiece,
    CallBegun,
    CallOver,
    CallProgress,
    CallReady,
    ClientCallsWait,
    PictureShown,
    ProseBegun,
    ProseEnded,
    ProsePiece,
    QuestionShown,
    SourceShown,
    StepBegun,
    StepEnded,
    StepReset,
    TurnBegun,
    TurnOver,
)
from toolcrib.transports.http.frontends.ui_chunks import question_facts

if TYPE_CHECKING:
    from toolcrib.errors import Refused
    from toolcrib.runtime.approval_messages import ApprovalFacts
    from toolcrib.runtime.messages import PromptResult
    from toolcrib.transports.http.frontends.turn_parts import TurnPart

AgUiEvent: TypeAlias = dict[str, Any]

PROTOCOL_VERSION: Final = "1.0"
_ANSWER_SCHEMA: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


class AgUiEncoding:
    """Writes a turn as one run of a thread."""

    headers = ()
    last_frame = b""

    def __init__(self, thread_id: str, run_id: str) -> None:
        self._run = {"threadId": thread_id, "runId": run_id}
        self._is_begun = False
        self._streamed: set[str] = set()
        self._interrupts: list[AgUiEvent] = []

    def events(self, part: TurnPart) -> Iterator[AgUiEvent]:
        """The events for one part."""
        if not self._is_begun:
            self._is_begun = True
            yield {"type": "RUN_STARTED", **self._run, "protocolVersion": PROTOCOL_VERSION}
        match part:
            case ProseBegun() | ProsePiece() | ProseEnded():
                yield from _prose_events(part)
            case StepBegun() | StepEnded() | StepReset():
                yield _step_event(part)
            case CallBegun() | ArgumentsPiece() | CallReady() | CallProgress() | CallOver():
                yield from self._call_events(part)
            case _:
                yield from self._turn_events(part)

    def failure(self, refused: Refused) -> Iterator[AgUiEvent]:
        """The event for a refusal."""
        yield {"type": "RUN_ERROR", "message": refused.message, "code": refused.kind}

    def _turn_events(
        self,
        part: TurnBegun
        | ApprovalShown
        | QuestionShown
        | PictureShown
        | SourceShown
        | ClientCallsWait
        | TurnOver,
    ) -> Iterator[AgUiEvent]:
        match part:
            case TurnBegun(session_id=session_id, turn=turn):
                yield _custom("toolcrib.turn", {"sessionId": session_id, "turn": turn})
            case ApprovalShown(approval=approval, may_decide=True):
                self._interrupts.append(_interrupt(approval))
            case ApprovalShown(approval=approval):
                yield _custom("toolcrib.approval_elsewhere", _approval(approval))
            case QuestionShown():
                yield _custom("toolcrib.question", question_facts(part))
            case PictureShown(media_type=media_type, url=url, call_id=call_id):
                value = {"toolCallId": call_id, "mediaType": media_type, "url": url}
                yield _custom("toolcrib.file", value)
            case SourceShown(title=title, url=url, file_name=file_name):
                source = {"title": title, "url": url, "fileName": file_name}
                yield _custom("toolcrib.source", _known(source))
            case ClientCallsWait(call_ids=call_ids):
                outcome = {"type": "success", "pendingToolCallIds": list(call_ids)}
                yield {"type": "RUN_FINISHED", **self._run, "outcome": outcome}
            case TurnOver(result=result):
                yield self._end(result)

    def _call_events(
        self, part: CallBegun | ArgumentsPiece | CallReady | CallProgress | CallOver
    ) -> Iterator[AgUiEvent]:
        match part:
            case CallBegun(call_id=call_id, tool=tool, is_hosted=is_hosted):
                metadata = {"metadata": {"providerExecuted": True}} if is_hosted else {}
                start = {"toolCallId": call_id, "toolCallName": tool}
                yield {"type": "TOOL_CALL_START", **start, **metadata}
            case ArgumentsPiece(call_id=call_id, text=text):
                self._streamed.add(call_id)
                yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": text}
            case CallReady(call_id=call_id, arguments=arguments):
                if call_id not in self._streamed:
                    delta = as_bytes(arguments).decode()
                    yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": delta}
                yield {"type": "TOOL_CALL_END", "toolCallId": call_id}
            case CallProgress(call_id=call_id, tool=tool, what=what, facts=facts):
                value = {"toolCallId": call_id, "toolName": tool, "what": what, **facts}
                yield _custom("toolcrib.tool_progress", value)
            case CallOver():
                yield _result(part)
            case _:
                assert_never(part)

    def _end(self, result: PromptResult) -> AgUiEvent:
        finished: AgUiEvent = {"type": "RUN_FINISHED", **self._run, "usage": [_usage(result)]}
        if result.cost is not None:
            # The protocol counts tokens and has no price for them.
            finished["metadata"] = {"cost": result.cost}
        match result.status:
            case "completed":
                return {**finished, "outcome": {"type": "success"}}
            case "waiting" if self._interrupts:
                outcome = {"type": "interrupt", "interrupts": self._interrupts}
                return {**finished, "outcome": outcome}
            case "waiting":
                text = "the run waits for the approval of somebody else; run again to continue it"
                return {"type": "RUN_ERROR", "message": text, "code": "waiting"}
            case "cancelled":
                return {**finished, "outcome": {"type": "cancelled"}}
            case "failed":
                text = result.error or "the prompt was not answered"
                code = result.reason or "failed"
                return {"type": "RUN_ERROR", "message": text, "code": code}
            case _:
                assert_never(result.status)


def _step_event(part: StepBegun | StepEnded | StepReset) -> AgUiEvent:
    name = {"stepName": f"step-{part.step}"}
    match part:
        case StepBegun():
            return {"type": "STEP_STARTED", **name}
        case StepEnded():
            return {"type": "STEP_FINISHED", **name}
        case StepReset():
            # The protocol cannot take back what a message said.
            return _custom("toolcrib.step_reset", name)


def _prose_events(part: ProseBegun | ProsePiece | ProseEnded) -> Iterator[AgUiEvent]:
    message = {"messageId": part.part_id}
    is_text = part.kind == "text"
    name = "TEXT_MESSAGE" if is_text else "REASONING_MESSAGE"
    match part:
        case ProseBegun():
            if not is_text:
                yield {"type": "REASONING_START", **message}
            role = "assistant" if is_text else "reasoning"
            yield {"type": f"{name}_START", **message, "role": role}
        case ProsePiece(text=text):
            yield {"type": f"{name}_CONTENT", **message, "delta": text}
        case ProseEnded():
            yield {"type": f"{name}_END", **message}
            if not is_text:
                yield {"type": "REASONING_END", **message}


def result_content(part: CallOver) -> str:
    """What came of a call, as the text that the protocol has for it."""
    if part.ending != "done":
        return part.message
    return part.output if isinstance(part.output, str) else as_bytes(part.output).decode()


def result_id(call_id: str) -> str:
    """The id of the message with the result of a call."""
    return f"result-{call_id}"


def _result(part: CallOver) -> AgUiEvent:
    event = {
        "type": "TOOL_CALL_RESULT",
        "messageId": result_id(part.call_id),
        "toolCallId": part.call_id,
        "role": "tool",
        "content": result_content(part),
    }
    if part.ending == "done":
        return event
    # The event has no field of its own for a failure.
    return {**event, "metadata": {"error": part.ending, **_known({"kind": part.failure_kind})}}


def _interrupt(approval: ApprovalFacts) -> AgUiEvent:
    interrupt: AgUiEvent = {
        "id": approval.approval_id,
        "reason": "tool_approval",
        "message": f"{approval.tool}: {approval.reason}",
        "toolCallId": approval.call_id,
        "responseSchema": _ANSWER_SCHEMA,
        "metadata": _approval(approval),
    }
    if approval.deadline is not None:
        interrupt["expiresAt"] = datetime.fromtimestamp(approval.deadline, UTC).isoformat()
    return interrupt


def _approval(approval: ApprovalFacts) -> AgUiEvent:
    return {
        "approvalId": approval.approval_id,
        "toolCallId": approval.call_id,
        "toolName": approval.tool,
        "arguments": approval.arguments,
        "digest": approval.digest,
    }


def _usage(result: PromptResult) -> AgUiEvent:
    usage = result.usage
    return _known(
        {"inputTokens": usage.get("input_tokens"), "outputTokens": usage.get("output_tokens")}
    )


def _custom(name: str, value: AgUiEvent) -> AgUiEvent:
    return {"type": "CUSTOM", "name": name, "value": value}


def _known(facts: AgUiEvent) -> AgUiEvent:
    # The protocol has optional fields, and no null for them.
    return {name: value for name, value in facts.items() if value is not None}
