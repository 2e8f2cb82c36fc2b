"""Questions of calls to the person at an editor: as a form where the editor shows forms, else as a
choice where there is something to choose from.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from acp.schema import (
    AllowedOutcome,
    CreateFormSessionElicitationRequest,
    ElicitationSchema,
    PermissionOption,
    RequestPermissionRequest,
    ToolCallUpdate,
)
from pydantic import BaseModel

from toolcrib.approval.decision import Actor
from toolcrib.approval.question import QuestionResponse
from toolcrib.errors import ClientGone, EditorFailed
from toolcrib.transports.acp.tool_calls import text_content
from toolcrib.transports.question_form import choices_of, form_of

if TYPE_CHECKING:
    from acp.schema import ClientCapabilities

    from toolcrib.approval.question import Question
    from toolcrib.runtime.principal import Principal
    from toolcrib.transports.acp.editor import Editor

_log = logging.getLogger(__name__)

_DECLINE: Final = "decline"


class ElicitationReply(BaseModel):
    """What the client answers to `elicitation/create`."""

    action: str
    content: dict[str, Any] | None = None


def shows_forms(client: ClientCapabilities) -> bool:
    """Whether an editor can show forms."""
    return client.elicitation is not None and client.elicitation.form is not None


@dataclass(frozen=True, slots=True)
class EditorAnswers:
    """Asks the person at the editor. Only a clear answer counts."""

    editor: Editor
    who: Principal
    has_forms: bool

    async def respond(self, question: Question) -> QuestionResponse | None:
        """Show the question, if the editor can, and wait for the person."""
        if question.is_secret:
            return QuestionResponse("nobody", reason="an editor cannot be asked for secrets")
        try:
            if self.has_forms:
                return await self._form(question)
            if (choices := choices_of(question.schema)) is not None:
                return await self._choice(question, choices)
        except ClientGone:
            return QuestionResponse("nobody", reason="the editor has disconnected")
        except EditorFailed as error:
            _log.warning("the editor did not show %s: %s", question.question_id, error)
            return QuestionResponse("nobody", reason="the editor did not show the question")
        reason = "the editor has no elicitation capability, and there is nothing to choose from"
        return QuestionResponse("nobody", reason=reason)

    async def _form(self, question: Question) -> QuestionResponse:
        form, actor = form_of(question), Actor("person", self.who.name)
        request = CreateFormSessionElicitationRequest(
            mode="form",
            session_id=question.session_id,
            tool_call_id=question.call_id,
            message=form.text,
            requested_schema=ElicitationSchema.model_validate(form.schema),
        )
        reply = await self.editor.ask("elicitation_create", request, ElicitationReply)
        match reply.action:
            case "accept":
                return QuestionResponse("answer", form.value_of(reply.content), actor=actor)
            case "decline":
                return QuestionResponse("decline", actor=actor)
            case _:
                return QuestionResponse("cancel", actor=actor)

    async def _choice(self, question: Question, choices: dict[str, Any]) -> QuestionResponse:
        options = [
            PermissionOption(option_id=f"answer_{place}", name=name, kind="allow_once")
            for place, name in enumerate(choices)
        ]
        decline = PermissionOption(option_id=_DECLINE, name="Decline", kind="reject_once")
        text = form_of(question).text
        call = ToolCallUpdate(
            tool_call_id=question.call_id,
            title=text,
            status="in_progress",
            content=[text_content(text)],
        )
        request = RequestPermissionRequest(
            session_id=question.session_id,
            tool_call=call,
            options=[*options, decline],
            field_meta={"toolcrib": {"questionId": question.question_id}},
        )
        outcome = (await self.editor.permission(request)).outcome
        actor = Actor("person", self.who.name)
        if not isinstance(outcome, AllowedOutcome):
            return QuestionResponse("cancel", actor=actor)
        if outcome.option_id == _DECLINE:
            return QuestionResponse("decline", actor=actor)
        values = {f"answer_{place}": value for place, value in enumerate(choices.values())}
        if outcome.option_id not in values:
            return QuestionResponse("nobody", reason="the editor sent an unknown option")
        return QuestionResponse("answer", values[outcome.option_id], actor=actor)
