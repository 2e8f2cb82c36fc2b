"""The state of a task: what the store knows of its call, at any replica and after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mcp_types import ElicitRequest, ElicitRequestFormParams

from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.record import Record
from toolcrib.runtime.messages import CallResult, OneCall
from toolcrib.store.store import OpenCall
from toolcrib.transports.mcp.questions import can_show_forms
from toolcrib.transports.mcp.task import Task, TaskId, no_task
from toolcrib.transports.question_form import form_for

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import InputRequest

    from toolcrib.runtime.approval_messages import ApprovalFacts, QuestionFacts
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.client_sessions import ClientSession
    from toolcrib.transports.mcp.elicitation import ElicitedApprovals

RUNNING_POLL_MS: Final = 1_000
WAITING_POLL_MS: Final = 5_000
"""People take longer than tools."""


@dataclass(frozen=True, slots=True)
class TaskViewer:
    """The client that looks at a task, and which forms it may be shown."""

    client: ClientSession
    context: ServerRequestContext[Any, Any]
    """Its request."""
    may_decide: bool
    """Whether its answer to a form decides a call."""

    @property
    def has_forms(self) -> bool:
        """Whether the client can show the questions of a call."""
        return can_show_forms(self.context)

    @property
    def who(self) -> Principal:
        """The principal of the client."""
        return self.client.who


class TaskStates:
    """Reads tasks from the store."""

    def __init__(
        self, runtime: Runtime, approvals: ElicitedApprovals, ttl_seconds: float | None
    ) -> None:
        self._runtime = runtime
        self._approvals = approvals
        self._ttl_seconds = ttl_seconds

    async def known(self, task_id: TaskId, who: Principal) -> OpenCall | ToolInvoked:
        """The call of a task, open or ended. Raises the error of the protocol for one that is not
        there, was another principal's, or has expired.
        """
        params = OneCall(session_id=task_id.session_id, call_id=task_id.call_id)
        match await self._runtime.service.known_call(params, who):
            case OpenCall() as call if call.caller.principal == who.name:
                self._check_age(call.created_at)
                return call
            case Record(payload=None):
                raise no_task("has expired")
            case Record(event=ToolInvoked() as ended) if ended.principal == who.name:
                self._check_age(_begun(ended))
                return ended
            case _:
                raise no_task()

    def ended(self, task_id: TaskId, call: ToolInvoked) -> Task:
        """The task of a call that has ended, without its result."""
        is_cancelled = call.failure is not None and call.failure.kind == "cancelled"
        task = self.begun(task_id, _begun(call))
        status = "cancelled" if is_cancelled else "completed"
        return replace(task, status=status, updated_at=call.at)

    async def asking(
        self, task: Task, viewer: TaskViewer, forwarded: Mapping[str, InputRequest]
    ) -> Task:
        """The task of a running call, with the forms of the questions that it has asked, and the
        requests of mounted servers.
        """
        questions = await self.questions(task.task_id, viewer) if viewer.has_forms else []
        if not questions and not forwarded:
            return task
        requests: dict[str, Any] = {key: _plain(request) for key, request in forwarded.items()}
        for question in questions:
            form = form_for(question.text, question.schema)
            requests[question.question_id] = _form_request(form.text, form.schema)
        return replace(
            task,
            status="input_required",
            message="The call has asked a question.",
            updated_at=max(
                (question.created_at for question in questions), default=task.updated_at
            ),
            input_requests=requests,
        )

    async def questions(self, task_id: TaskId, viewer: TaskViewer) -> list[QuestionFacts]:
        """The open questions of a task's call, and of the calls that it makes."""
        asked = await self._runtime.ask(
            "questions.list", {"session_id": task_id.session_id}, viewer.who
        )
        return [
            question
            for question in asked.questions
            if task_id.call_id in (question.call_id, question.parent_call_id)
            and not question.is_secret
        ]

    async def waiting(
        self, task: Task, approval: ApprovalFacts, viewer: TaskViewer, *, was_left: bool
    ) -> Task:
        """The task of a call that waits for a decision, with the form if the client may decide.
        `was_left` says that the person at the client has declined to.
        """
        task = replace(
            task,
            message=f"Waiting for approval {approval.approval_id}: a person has to approve this "
            f"call of `{approval.tool}` first.",
            updated_at=approval.created_at,
            poll_ms=WAITING_POLL_MS,
        )
        has_voted = any(vote.by == viewer.who.name for vote in approval.votes)
        if not viewer.may_decide or was_left or has_voted:
            return task
        form = await self._approvals.form(viewer.client, approval.approval_id)
        if form is None:
            return task
        shown, text = form
        request = _form_request(text, self._approvals.schema)
        return replace(task, status="input_required", input_requests={shown.to_key(): request})

    def begun(self, task_id: TaskId, created_at: float) -> Task:
        """The task of an open call, as far as that is all there is to say."""
        return Task(
            task_id=task_id,
            status="working",
            created_at=created_at,
            updated_at=created_at,
            poll_ms=RUNNING_POLL_MS,
            ttl_ms=None if self._ttl_seconds is None else int(self._ttl_seconds * 1_000),
        )

    def _check_age(self, created_at: float) -> None:
        ttl = self._ttl_seconds
        if ttl is not None and self._runtime.store.clock() > created_at + ttl:
            raise no_task("has expired")


def result_of(call: ToolInvoked) -> CallResult:
    """The result of a call that has ended."""
    return CallResult(
        call_id=call.call_id,
        tool=call.name,
        status="completed" if call.success else "failed",
        text=call.message,
        value=call.value,
        failure=call.failure,
        artifact_id=call.artifact_id,
        metadata=call.metadata or {},
    )


def _begun(call: ToolInvoked) -> float:
    return call.at - call.duration_seconds - call.waited_seconds


def _form_request(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    params = ElicitRequestFormParams(message=text, requested_schema=schema)
    return _plain(ElicitRequest(params=params))


def _plain(request: InputRequest) -> dict[str, Any]:
    return request.model_dump(by_alias=True, mode="json", exclude_none=True)
