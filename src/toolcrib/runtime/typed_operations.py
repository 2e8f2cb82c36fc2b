"""Every operation of a runtime as a typed method: in the process, or over a connection."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from toolcrib.errors import Refused
from toolcrib.runtime.typed_approvals import ApprovalOperations, without_none
from toolcrib.runtime.typed_catalog import TypedCatalog

if TYPE_CHECKING:
    from toolcrib.approval.decision import ActorKind
    from toolcrib.failures import FailureKind
    from toolcrib.runtime.audit_messages import Calls, Kind, Records, Sums
    from toolcrib.runtime.config import WhenBusy
    from toolcrib.runtime.messages import (
        ArtifactPage,
        CallResult,
        Cancelled,
        Capabilities,
        ClientTool,
        Events,
        PromptResult,
        SessionFacts,
        Sessions,
        SessionState,
        Time,
        ToolFacts,
        Tools,
    )
    from toolcrib.runtime.session_events import SessionEvents
    from toolcrib.store.call_query import RowDecision, SumKey


class TypedOperations(ApprovalOperations, TypedCatalog):
    """One method for each operation. Each raises `Refused` when the operation is not done.

    An `idempotency_key` makes an operation safe to repeat: the second request gets the result of
    the first.
    """

    @abstractmethod
    def events(self, session_id: str, after: int = 0) -> SessionEvents:
        """The events of a session after the record `after`, then those that happen."""

    async def capabilities(self) -> Capabilities:
        """The protocol, the operations and the limits of the runtime."""
        return await self.run_operation("runtime.capabilities", {})

    async def create_session(
        self,
        session_id: str | None = None,
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        allowed_tools: Sequence[str] | None = None,
        denied_tools: Sequence[str] | None = None,
        expected_tools: Sequence[str] | None = None,
        capabilities: Sequence[str] | None = None,
        client_tools: Sequence[ClientTool] = (),
        is_temporary: bool = False,
        idempotency_key: str | None = None,
    ) -> SessionFacts:
        """Open a new session, with its tools. Closing a temporary one deletes it, if nothing was
        called or prompted in it.
        """
        params = without_none(
            session_id=session_id,
            cwd=cwd,
            environment=environment,
            metadata=metadata,
            allowed_tools=allowed_tools,
            denied_tools=denied_tools,
            expected_tools=expected_tools,
            capabilities=capabilities,
            client_tools=[asdict(tool) for tool in client_tools],
            is_temporary=is_temporary,
            idempotency_key=idempotency_key,
        )
        return await self.run_operation("session.create", params)

    async def open_session(
        self,
        session_id: str | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        capabilities: Sequence[str] | None = None,
        client_tools: Sequence[ClientTool] = (),
    ) -> SessionFacts:
        """Open a session of the store, or create it when there is none of that id."""
        if session_id is None:
            return await self.create_session(
                environment=environment, capabilities=capabilities, client_tools=client_tools
            )

        async def resume() -> SessionFacts:
            return await self.resume_session(
                session_id,
                environment=environment,
                capabilities=capabilities,
                client_tools=client_tools,
            )

        try:
            return await resume()
        except Refused as refused:
            if refused.kind != "not_found":
                raise
        try:
            return await self.create_session(
                session_id,
                environment=environment,
                capabilities=capabilities,
                client_tools=client_tools,
            )
        except Refused as refused:
            if refused.kind != "conflict":
                raise
        # Another client created it in the meantime; a session of somebody else stays not_found.
        return await resume()

    async def get_session(self, session_id: str) -> SessionFacts:
        """A session as it is now."""
        return await self.run_operation("session.get", {"session_id": session_id})

    async def list_sessions(
        self,
        *,
        owner: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        state: SessionState | None = None,
        text: str | None = None,
        tool: str | None = None,
        waiting: bool | None = None,
        failed: bool | None = None,
        newest_first: bool = False,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Sessions:
        """A page of the sessions, oldest first: of one owner, created in this time (see
        `list_calls`), open or closed, with these words in title, id, owner or metadata, with calls
        of a tool, that wait for an approval, or with calls that failed.
        """
        params = without_none(
            owner=owner,
            since=since,
            until=until,
            state=state,
            text=text,
            tool=tool,
            waiting=waiting,
            failed=failed,
            newest_first=newest_first,
            cursor=cursor,
            limit=limit,
        )
        return await self.run_operation("session.list", params)

    async def resume_session(
        self,
        session_id: str,
        *,
        environment: Mapping[str, str] | None = None,
        capabilities: Sequence[str] | None = None,
        client_tools: Sequence[ClientTool] = (),
    ) -> SessionFacts:
        """Open a session of the store again."""
        params = without_none(
            session_id=session_id,
            environment=environment,
            capabilities=capabilities,
            client_tools=[asdict(tool) for tool in client_tools],
        )
        return await self.run_operation("session.resume", params)

    async def fork_session(
        self, session_id: str, new_session_id: str | None = None
    ) -> SessionFacts:
        """Create a session that begins with the history of another one."""
        params = without_none(session_id=session_id, new_session_id=new_session_id)
        return await self.run_operation("session.fork", params)

    async def close_session(self, session_id: str) -> None:
        """Close a session; it stays in the store."""
        await self.run_operation("session.close", {"session_id": session_id})

    async def delete_session(self, session_id: str) -> None:
        """Delete a session and everything it holds."""
        await self.run_operation("session.delete", {"session_id": session_id})

    async def list_tools(self, session_id: str, *, category: str | None = None) -> Tools:
        """The tools of a session, or those of one category."""
        params = without_none(session_id=session_id, category=category)
        return await self.run_operation("tools.list", params)

    async def get_tool(self, session_id: str, name: str) -> ToolFacts:
        """One tool of a session."""
        return await self.run_operation("tools.info", {"session_id": session_id, "name": name})

    async def call_tool(
        self,
        session_id: str,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        call_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> CallResult:
        """Call a tool without a model. With the id of a waiting call, that call is resumed."""
        params = without_none(
            session_id=session_id,
            name=name,
            arguments=arguments,
            call_id=call_id,
            idempotency_key=idempotency_key,
        )
        return await self.run_operation("tools.call", params)

    async def cancel_call(self, session_id: str, call_id: str) -> Cancelled:
        """Cancel a running call, or withdraw a waiting one."""
        params = {"session_id": session_id, "call_id": call_id}
        return await self.run_operation("tools.cancel", params)

    async def send_prompt(
        self,
        session_id: str,
        text: str,
        *,
        waits: bool = True,
        when_busy: WhenBusy | None = None,
        idempotency_key: str | None = None,
    ) -> PromptResult:
        """Send a prompt to the model. With `waits`, wait for the approvals that it needs, otherwise
        return as `waiting`.
        """
        params = without_none(
            session_id=session_id,
            text=text,
            waits=waits,
            when_busy=when_busy,
            idempotency_key=idempotency_key,
        )
        return await self.run_operation("prompt.send", params)

    async def resume_prompt(
        self, session_id: str, *, waits: bool = True, idempotency_key: str | None = None
    ) -> PromptResult:
        """Resume a prompt that waits or was interrupted."""
        params = without_none(session_id=session_id, waits=waits, idempotency_key=idempotency_key)
        return await self.run_operation("prompt.resume", params)

    async def cancel_prompt(self, session_id: str) -> Cancelled:
        """Cancel the running prompt, or abandon the waiting one."""
        return await self.run_operation("prompt.cancel", {"session_id": session_id})

    async def artifact(
        self, session_id: str, artifact_id: str, *, offset: int = 0, limit: int | None = None
    ) -> ArtifactPage:
        """A result that was too long for the model: all of it, or `limit` characters of it. A very
        large one comes in pages all the same.
        """
        params = without_none(
            session_id=session_id, artifact_id=artifact_id, offset=offset, limit=limit
        )
        return await self.run_operation("artifacts.get", params)

    async def list_calls(
        self,
        *,
        since: Time | None = None,
        until: Time | None = None,
        kind: Kind = "tool",
        principal: str | None = None,
        owner: str | None = None,
        tool: str | None = None,
        source: str | None = None,
        model: str | None = None,
        status: str | None = None,
        failure: FailureKind | None = None,
        decision: RowDecision | None = None,
        decided_by: ActorKind | None = None,
        approver: str | None = None,
        session_id: str | None = None,
        min_cost: float | None = None,
        oldest_first: bool = False,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Calls:
        """A page of the calls of all sessions, newest first. `since` and `until` are seconds since
        the epoch, times in ISO 8601, or how long ago (`7d`); `tool` may be a pattern, `status`
        several with commas between them.
        """
        params = without_none(
            since=since,
            until=until,
            kind=kind,
            principal=principal,
            owner=owner,
            tool=tool,
            source=source,
            model=model,
            status=status,
            failure=failure,
            decision=decision,
            decided_by=decided_by,
            approver=approver,
            session_id=session_id,
            min_cost=min_cost,
            oldest_first=oldest_first,
            cursor=cursor,
            limit=limit,
        )
        return await self.run_operation("calls.list", params)

    async def sum_calls(
        self,
        *,
        by: SumKey = "day",
        since: Time | None = None,
        until: Time | None = None,
        principal: str | None = None,
        owner: str | None = None,
        tool: str | None = None,
        source: str | None = None,
        model: str | None = None,
        status: str | None = None,
        failure: FailureKind | None = None,
        decision: RowDecision | None = None,
        decided_by: ActorKind | None = None,
        approver: str | None = None,
        session_id: str | None = None,
        min_cost: float | None = None,
    ) -> Sums:
        """What calls took together, by time, tool, principal, model or status: times, tokens, cost.
        The filters are those of `list_calls`.
        """
        params = without_none(
            by=by,
            since=since,
            until=until,
            principal=principal,
            owner=owner,
            tool=tool,
            source=source,
            model=model,
            status=status,
            failure=failure,
            decision=decision,
            decided_by=decided_by,
            approver=approver,
            session_id=session_id,
            min_cost=min_cost,
        )
        return await self.run_operation("calls.sums", params)

    async def list_events(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        newest_first: bool = False,
        limit: int = 1_000,
    ) -> Events:
        """A page of the recorded events of a session, as JSON; `events` has them typed."""
        params = without_none(
            session_id=session_id,
            after=after,
            before=before,
            newest_first=newest_first,
            limit=limit,
        )
        return await self.run_operation("events.list", params)

    async def list_records(self, session_id: str, *, after: int = 0, limit: int = 500) -> Records:
        """A page of the records of a session as they are stored, with their hashes."""
        params = {"session_id": session_id, "after": after, "limit": limit}
        return await self.run_operation("records.list", params)
