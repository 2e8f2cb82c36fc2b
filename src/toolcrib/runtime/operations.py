"""Every operation by its name, with its parameters, its result and the scope it requires."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from toolcrib.errors import Refused
from toolcrib.runtime import messages
from toolcrib.runtime.service import Service

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal, Scope


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a runtime."""

    name: str
    scope: Scope
    params: type[Any]
    result: type[Any]
    run: Callable[..., Awaitable[Any]]
    about: str

    def read(self, params: object) -> Any:
        """The typed parameters. Raises `Refused` (invalid) that names each fault."""
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

    async def ask(self, service: Service, params: object, who: Principal) -> Any:
        """Check the scope and the parameters, and run the operation."""
        who.check(self.scope, self.name)
        return await self.run(service, self.read(params), who)


def _operation(
    name: str, scope: Scope, params: type[Any], result: type[Any], run: Callable[..., Any]
) -> Operation:
    return Operation(name, scope, params, result, run, (run.__doc__ or "").strip())


_ALL: Final = (
    _operation(
        "runtime.capabilities",
        "read",
        messages.Nothing,
        messages.Capabilities,
        Service.capabilities,
    ),
    _operation(
        "session.create",
        "call",
        messages.CreateSession,
        messages.SessionFacts,
        Service.create_session,
    ),
    _operation(
        "session.get", "read", messages.OneSession, messages.SessionFacts, Service.get_session
    ),
    _operation("session.list", "read", messages.Nothing, messages.Sessions, Service.list_sessions),
    _operation(
        "session.resume",
        "call",
        messages.ResumeSession,
        messages.SessionFacts,
        Service.resume_session,
    ),
    _operation(
        "session.fork", "call", messages.ForkSession, messages.SessionFacts, Service.fork_session
    ),
    _operation(
        "session.close", "call", messages.OneSession, messages.Nothing, Service.close_session
    ),
    _operation(
        "session.delete", "admin", messages.OneSession, messages.Nothing, Service.delete_session
    ),
    _operation("tools.list", "read", messages.ListTools, messages.Tools, Service.list_tools),
    _operation("tools.info", "read", messages.OneTool, messages.ToolFacts, Service.tool_info),
    _operation("tools.call", "call", messages.CallTool, messages.CallResult, Service.call_tool),
    _operation("tools.cancel", "call", messages.OneCall, messages.Cancelled, Service.cancel_call),
    _operation(
        "prompt.send", "call", messages.SendPrompt, messages.PromptResult, Service.send_prompt
    ),
    _operation(
        "prompt.resume",
        "call",
        messages.ResumePrompt,
        messages.PromptResult,
        Service.resume_prompt,
    ),
    _operation(
        "prompt.cancel", "call", messages.OneSession, messages.Cancelled, Service.cancel_prompt
    ),
    _operation(
        "approvals.list", "read", messages.ListApprovals, messages.Inbox, Service.list_approvals
    ),
    _operation(
        "approvals.get",
        "read",
        messages.OneApproval,
        messages.ApprovalFacts,
        Service.get_approval,
    ),
    _operation(
        "approvals.decide", "approve", messages.Decide, messages.ApprovalFacts, Service.decide
    ),
    _operation("grants.list", "read", messages.Nothing, messages.Grants, Service.list_grants),
    _operation(
        "grants.revoke", "approve", messages.OneGrant, messages.Revoked, Service.revoke_grant
    ),
    _operation("events.list", "read", messages.ListEvents, messages.Events, Service.list_events),
)

OPERATIONS: Final[dict[str, Operation]] = {operation.name: operation for operation in _ALL}


@cache
def _adapter(params: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(params)
