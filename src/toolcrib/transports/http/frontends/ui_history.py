"""The turns of a chat as messages of the Vercel AI SDK, for a page that is loaded again."""

from __future__ import annotations

from collections.abc import Iterable
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
from toolcrib.transports.http.frontends.ui_chunks import answer_id, source_chunk

if TYPE_CHECKING:
    from toolcrib.transports.http.frontends.chat_history import PastTurn
    from toolcrib.transports.http.frontends.turn_parts import TurnPart

Json: TypeAlias = dict[str, Any]


def ui_history(turns: Iterable[PastTurn]) -> list[Json]:
    """The messages of turns, two of each: what the user wrote, and what came of it."""
    messages: list[Json] = []
    for past in turns:
        text = {"type": "text", "text": past.text}
        messages.append({"id": f"prompt-{past.turn}", "role": "user", "parts": [text]})
        answer = UiAnswer()
        for part in past.parts:
            answer.add(part)
        if answer.parts:
            messages.append(
                {"id": answer_id(past.turn), "role": "assistant", "parts": answer.parts}
            )
    return messages


class UiAnswer:
    """The parts of one answer, as the client would have built them from the stream."""

    def __init__(self) -> None:
        self.parts: list[Json] = []
        self._prose: dict[str, Json] = {}
        self._calls: dict[str, Json] = {}

    def add(self, part: TurnPart) -> None:
        """Take the next part of the turn."""
        match part:
            case StepBegun():
                self.parts.append({"type": "step-start"})
            case ProseBegun(kind=kind, part_id=part_id):
                self._prose[part_id] = {"type": kind, "text": "", "state": "done"}
                self.parts.append(self._prose[part_id])
            case ProsePiece(part_id=part_id, text=text):
                self._prose[part_id]["text"] += text
            case SourceShown() | PictureShown():
                self.parts.append(source_chunk(part))
            case CallReady() | CallOver() | ApprovalShown():
                self._add_call(part)
            case (
                CallBegun()
                | ArgumentsPiece()
                | CallProgress()
                | QuestionShown()
                | StepReset()
                | StepEnded()
                | ProseEnded()
                | TurnBegun()
                | ClientCallsWait()
                | TurnOver()
            ):
                return
            case _:
                assert_never(part)

    def _add_call(self, part: CallReady | CallOver | ApprovalShown) -> None:
        match part:
            case CallReady(call_id=call_id, tool=tool, arguments=arguments):
                call: Json = {
                    "type": f"tool-{tool}",
                    "toolCallId": call_id,
                    "state": "input-available",
                    "input": arguments,
                }
                if part.is_hosted:
                    call["providerExecuted"] = True
                self._calls[call_id] = call
                self.parts.append(call)
            case CallOver(call_id=call_id, ending="done", output=output):
                self._calls[call_id] |= {"state": "output-available", "output": output}
            case CallOver(call_id=call_id, ending="denied", message=message):
                approval = self._calls[call_id].get("approval", {"id": call_id})
                denied = {**approval, "approved": False, "reason": message}
                self._calls[call_id] |= {"state": "output-denied", "approval": denied}
            case CallOver(call_id=call_id, message=message):
                self._calls[call_id] |= {"state": "output-error", "errorText": message}
            case ApprovalShown(approval=approval, may_decide=True):
                request = {
                    "id": approval.approval_id,
                    "requestReason": approval.reason,
                    "signature": approval.digest,
                }
                self._calls[approval.call_id] |= {
                    "state": "approval-requested",
                    "approval": request,
                }
            case ApprovalShown():
                return
