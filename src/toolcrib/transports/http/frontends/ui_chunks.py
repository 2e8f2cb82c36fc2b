"""The parts of a turn as chunks of the UI message stream (version 1) of the Vercel AI SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

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

if TYPE_CHECKING:
    from toolcrib.errors import Refused
    from toolcrib.runtime.approval_messages import ApprovalFacts
    from toolcrib.runtime.messages import PromptResult
    from toolcrib.transports.http.frontends.turn_parts import TurnPart

Chunk: TypeAlias = dict[str, Any]


class UiEncoding:
    """Writes a turn as a UI message stream."""

    headers = ((b"x-vercel-ai-ui-message-stream", b"v1"),)
    last_frame = b"data: [DONE]\n\n"

    def events(self, part: TurnPart) -> Iterator[Chunk]:
        """The chunks for one part."""
        return ui_chunks(part)

    def failure(self, refused: Refused) -> Iterator[Chunk]:
        """The chunk for a refusal."""
        yield {"type": "error", "errorText": refused.message}


def ui_chunks(part: TurnPart) -> Iterator[Chunk]:
    """The chunks for one part."""
    match part:
        case TurnBegun(session_id=session_id, turn=turn):
            facts = {"sessionId": session_id, "turn": turn}
            yield {"type": "start", "messageId": answer_id(turn), "messageMetadata": facts}
        case StepBegun():
            yield {"type": "start-step"}
        case StepReset():
            yield {"type": "reset-step"}
        case StepEnded():
            yield {"type": "finish-step"}
        case ProseBegun() | ProsePiece() | ProseEnded():
            yield _prose_chunk(part)
        case SourceShown() | PictureShown():
            yield source_chunk(part)
        case ClientCallsWait():
            yield {"type": "finish", "finishReason": "tool-calls"}
        case TurnOver(result=result):
            yield from _end_chunks(result)
        case _:
            yield from _call_chunks(part)


def _prose_chunk(part: ProseBegun | ProsePiece | ProseEnded) -> Chunk:
    match part:
        case ProseBegun(kind=kind, part_id=part_id):
            return {"type": f"{kind}-start", "id": part_id}
        case ProsePiece(kind=kind, part_id=part_id, text=text):
            return {"type": f"{kind}-delta", "id": part_id, "delta": text}
        case ProseEnded(kind=kind, part_id=part_id):
            return {"type": f"{kind}-end", "id": part_id}


def _call_chunks(
    part: CallBegun
    | ArgumentsPiece
    | CallReady
    | CallProgress
    | CallOver
    | ApprovalShown
    | QuestionShown,
) -> Iterator[Chunk]:
    match part:
        case CallBegun(call_id=call_id, tool=tool, is_hosted=is_hosted):
            yield {"type": "tool-input-start", **_call(call_id, is_hosted), "toolName": tool}
        case ArgumentsPiece(call_id=call_id, text=text):
            yield {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": text}
        case CallReady(call_id=call_id, tool=tool, arguments=arguments, is_hosted=is_hosted):
            call = _call(call_id, is_hosted)
            yield {"type": "tool-input-available", **call, "toolName": tool, "input": arguments}
        case CallProgress(call_id=call_id, tool=tool, what=what, facts=facts):
            data = {"toolCallId": call_id, "toolName": tool, "what": what, **facts}
            yield {"type": "data-tool-progress", "data": data, "transient": True}
        case CallOver():
            yield _ending(part)
        case ApprovalShown(approval=approval, may_decide=may_decide):
            yield _approval(approval, may_decide=may_decide)
        case QuestionShown(question_id=question_id):
            yield {"type": "data-question", "id": question_id, "data": question_facts(part)}
        case _:
            assert_never(part)


def question_facts(part: QuestionShown) -> Chunk:
    """A question as JSON, or that it is over."""
    facts: Chunk = {"questionId": part.question_id, "toolCallId": part.call_id}
    if not part.is_open:
        return {**facts, "isOpen": False}
    shown = {"toolName": part.tool, "text": part.text, "schema": part.schema}
    return {**facts, "isOpen": True, **shown, "isSecret": part.is_secret}


def answer_id(turn: int) -> str:
    """The id of the message with the answer of a turn; the same for a turn that goes on."""
    return f"answer-{turn}"


def source_chunk(source: SourceShown | PictureShown) -> Chunk:
    """A cited page or file, or a picture: the same in a stream and in a message."""
    if isinstance(source, PictureShown):
        return {"type": "file", "mediaType": source.media_type, "url": source.url}
    if source.url is not None:
        return {
            "type": "source-url",
            "sourceId": source.source_id,
            "url": source.url,
            "title": source.title,
        }
    return {
        "type": "source-document",
        "sourceId": source.source_id,
        "mediaType": "application/octet-stream",
        "title": source.title,
        **({} if source.file_name is None else {"filename": source.file_name}),
    }


def _call(call_id: str, is_hosted: bool) -> Chunk:
    return {"toolCallId": call_id, **({"providerExecuted": True} if is_hosted else {})}


def _ending(part: CallOver) -> Chunk:
    match part.ending:
        case "done":
            call = _call(part.call_id, part.is_hosted)
            return {"type": "tool-output-available", **call, "output": part.output}
        case "failed":
            call = _call(part.call_id, part.is_hosted)
            return {"type": "tool-output-error", **call, "errorText": part.message}
        case "denied":
            return {"type": "tool-output-denied", "toolCallId": part.call_id}
        case _:
            assert_never(part.ending)


def _approval(approval: ApprovalFacts, *, may_decide: bool) -> Chunk:
    if may_decide:
        return {
            "type": "tool-approval-request",
            "approvalId": approval.approval_id,
            "toolCallId": approval.call_id,
            "reason": approval.reason,
            # It comes back with the decision, which so is about these arguments.
            "signature": approval.digest,
        }
    data = {
        "approvalId": approval.approval_id,
        "toolCallId": approval.call_id,
        "toolName": approval.tool,
        "reason": approval.reason,
    }
    return {"type": "data-approval-elsewhere", "id": approval.approval_id, "data": data}


def _end_chunks(result: PromptResult) -> Iterator[Chunk]:
    facts = {"status": result.status, "usage": result.usage, "cost": result.cost}
    match result.status:
        case "completed":
            yield {"type": "finish", "finishReason": "stop", "messageMetadata": facts}
        case "waiting":
            yield {"type": "finish", "finishReason": "tool-calls", "messageMetadata": facts}
        case "cancelled":
            yield {"type": "abort", "reason": "the prompt was cancelled"}
        case "failed":
            yield {
                "type": "message-metadata",
                "messageMetadata": {**facts, "reason": result.reason},
            }
            yield {"type": "error", "errorText": result.error or "the prompt was not answered"}
        case _:
            assert_never(result.status)
