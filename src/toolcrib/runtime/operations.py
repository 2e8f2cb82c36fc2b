"""Every operation by its name, with its parameters, its result and the roles that may ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from toolcrib.errors import Refused
from toolcrib.runtime import (
    approval_messages,
    audit_messages,
    catalog_messages,
    catalog_operations,
    messages,
    policy_messages,
    policy_operations,
    server_operations,
)
from toolcrib.runtime.service import Service
from toolcrib.runtime.unicode_check import place_of_surrogate

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal, Role


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a runtime."""

    name: str
    roles: tuple[Role, ...]
    """A principal needs one of them; `admin` has them all."""
    params: type[Any]
    result: type[Any]
    run: Callable[..., Awaitable[Any]]
    about: str

    def read(self, params: object) -> Any:
        """The typed parameters. Raises `Refused` (invalid) that names each fault."""
        self._check_texts(params)
        try:
            return _adapter(self.params).validate_python({} if params is None else params)
        except ValidationError as error:
            faults = [
                {"pointer": "/" + "/".join(map(str, fault["loc"])), "message": fault["msg"]}
                for fault in error.errors(include_url=False, include_input=False)
            ]
            first = faults[0]
            raise Refused(
                "invalid",
                f"{self.name}: {first['pointer']}: {first['message']}",
                {"faults": faults},
            ) from None

    def _check_texts(self, params: object) -> None:
        # A program can pass what no JSON has, and neither a store nor a provider could take it.
        try:
            to_json(params)
        except ValueError:
            place = place_of_surrogate(params)
        else:
            return
        if place is not None:
            message = "the text has half of a surrogate pair, which is no Unicode text"
            raise Refused(
                "invalid",
                f"{self.name}: {place}: {message}",
                {"faults": [{"pointer": place, "message": message}]},
            )

    async def ask(self, service: Service, params: object, who: Principal) -> Any:
        """Check the role and the parameters, and run the operation."""
        who.check(self.roles, self.name)
        return await self.run(service, self.read(params), who)


def _operation(
    name: str,
    roles: tuple[Role, ...],
    params: type[Any],
    result: type[Any],
    run: Callable[..., Any],
) -> Operation:
    return Operation(name, roles, params, result, run, (run.__doc__ or "").strip())


_EVERYBODY: Final[tuple[Role, ...]] = ("caller", "approver", "auditor")
_READERS: Final[tuple[Role, ...]] = ("caller", "auditor")
_CALLERS: Final[tuple[Role, ...]] = ("caller",)
_APPROVERS: Final[tuple[Role, ...]] = ("approver",)
_ADMINS: Final[tuple[Role, ...]] = ("admin",)

_ALL: Final = (
    _operation(
        "runtime.capabilities",
        _EVERYBODY,
        messages.Nothing,
        messages.Capabilities,
        Service.capabilities,
    ),
    _operation(
        "session.create",
        _CALLERS,
        messages.CreateSession,
        messages.SessionFacts,
        Service.create_session,
    ),
    _operation(
        "session.get", _READERS, messages.OneSession, messages.SessionFacts, Service.get_session
    ),
    _operation(
        "session.list", _READERS, messages.ListSessions, messages.Sessions, Service.list_sessions
    ),
    _operation(
        "session.resume",
        _CALLERS,
        messages.ResumeSession,
        messages.SessionFacts,
        Service.resume_session,
    ),
    _operation(
        "session.fork", _CALLERS, messages.ForkSession, messages.SessionFacts, Service.fork_session
    ),
    _operation(
        "session.close", _CALLERS, messages.OneSession, messages.Nothing, Service.close_session
    ),
    _operation(
        "session.delete", _ADMINS, messages.OneSession, messages.Nothing, Service.delete_session
    ),
    _operation("tools.list", _READERS, messages.ListTools, messages.Tools, Service.list_tools),
    _operation("tools.info", _READERS, messages.OneTool, messages.ToolFacts, Service.tool_info),
    _operation("tools.call", _CALLERS, messages.CallTool, messages.CallResult, Service.call_tool),
    _operation("tools.cancel", _CALLERS, messages.OneCall, messages.Cancelled, Service.cancel_call),
    _operation(
        "prompt.send", _CALLERS, messages.SendPrompt, messages.PromptResult, Service.send_prompt
    ),
    _operation(
        "prompt.resume",
        _CALLERS,
        messages.ResumePrompt,
        messages.PromptResult,
        Service.resume_prompt,
    ),
    _operation(
        "prompt.cancel", _CALLERS, messages.OneSession, messages.Cancelled, Service.cancel_prompt
    ),
    _operation(
        "approvals.list",
        _EVERYBODY,
        approval_messages.ListApprovals,
        approval_messages.Inbox,
        Service.list_approvals,
    ),
    _operation(
        "approvals.get",
        _EVERYBODY,
        approval_messages.OneApproval,
        approval_messages.ApprovalFacts,
        Service.get_approval,
    ),
    _operation(
        "approvals.context",
        _EVERYBODY,
        approval_messages.OneApproval,
        approval_messages.ApprovalContext,
        Service.approval_context,
    ),
    _operation(
        "approvals.events",
        _EVERYBODY,
        messages.Nothing,
        approval_messages.InboxState,
        Service.inbox_state,
    ),
    _operation(
        "approvals.decide",
        _APPROVERS,
        approval_messages.Decide,
        approval_messages.ApprovalFacts,
        Service.decide,
    ),
    _operation(
        "questions.list",
        _READERS,
        approval_messages.ListQuestions,
        approval_messages.OpenQuestions,
        Service.list_questions,
    ),
    _operation(
        "questions.answer",
        _CALLERS,
        approval_messages.AnswerQuestion,
        approval_messages.AnsweredQuestion,
        Service.answer_question,
    ),
    _operation(
        "grants.list",
        ("approver", "auditor"),
        messages.Nothing,
        approval_messages.Grants,
        Service.list_grants,
    ),
    _operation(
        "grants.get",
        ("approver", "auditor"),
        approval_messages.OneGrant,
        approval_messages.GrantFacts,
        Service.get_grant,
    ),
    _operation(
        "grants.preview",
        _EVERYBODY,
        approval_messages.PreviewGrant,
        approval_messages.Preview,
        Service.preview_grant,
    ),
    _operation(
        "grants.revoke",
        _APPROVERS,
        approval_messages.OneGrant,
        approval_messages.Revoked,
        Service.revoke_grant,
    ),
    _operation(
        "artifacts.get",
        _READERS,
        messages.OneArtifact,
        messages.ArtifactPage,
        Service.get_artifact,
    ),
    _operation(
        "calls.list", _READERS, audit_messages.ListCalls, audit_messages.Calls, Service.list_calls
    ),
    _operation(
        "calls.sums", _READERS, audit_messages.SumCalls, audit_messages.Sums, Service.sum_calls
    ),
    _operation(
        "records.list",
        _READERS,
        audit_messages.ListRecords,
        audit_messages.Records,
        Service.list_records,
    ),
    _operation(
        "catalog.list",
        _EVERYBODY,
        catalog_messages.ListCatalog,
        catalog_messages.Catalog,
        catalog_operations.list_catalog,
    ),
    _operation(
        "catalog.get",
        _EVERYBODY,
        catalog_messages.OneCatalogTool,
        catalog_messages.CatalogTool,
        catalog_operations.get_catalog_tool,
    ),
    _operation(
        "policy.explain",
        _EVERYBODY,
        catalog_messages.ExplainPolicy,
        catalog_messages.PolicyExplanation,
        catalog_operations.explain_policy,
    ),
    _operation(
        "policy.get",
        ("approver", "auditor"),
        messages.Nothing,
        policy_messages.PolicyInForce,
        policy_operations.get_policy,
    ),
    _operation(
        "policy.check",
        ("approver", "auditor"),
        policy_messages.CheckPolicy,
        policy_messages.PolicyReport,
        policy_operations.check_policy,
    ),
    _operation(
        "policy.preview",
        ("approver", "auditor"),
        policy_messages.PreviewPolicy,
        policy_messages.PolicyPreview,
        policy_operations.preview_policy,
    ),
    _operation(
        "servers.list",
        _READERS,
        messages.Nothing,
        catalog_messages.Servers,
        server_operations.list_servers,
    ),
    _operation("events.list", _READERS, messages.ListEvents, messages.Events, Service.list_events),
)

OPERATIONS: Final[dict[str, Operation]] = {operation.name: operation for operation in _ALL}


@cache
def _adapter(params: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(params)
