"""A runtime as an agent: what each method of the Agent Client Protocol does.

Sessions as a client of the Agent Client Protocol opens them, with the tools that it brings.

Sessions as an editor lists them, a page at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from acp import schema
from acp.meta import PROTOCOL_VERSION
from acp.schema import ListSessionsRequest, ListSessionsResponse, SessionInfo

from toolcrib._version import __version__
from toolcrib.errors import Refused
from toolcrib.transports.acp.client_tools import capabilities_of, tools_of
from toolcrib.transports.acp.extension import Extension
from toolcrib.transports.acp.mcp_servers import CAN_MOUNT, ClientServers, OfferedServer
from toolcrib.transports.acp.prompts import explained, response_to, text_of
from toolcrib.transports.acp.sessions import EditorSessions

if TYPE_CHECKING:
    from toolcrib.runtime.messages import SessionFacts
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.acp.editor import Editor
    from toolcrib.transports.acp.sessions import EditorSession


@dataclass(frozen=True, slots=True)
class SessionOpener:
    """Opens sessions for a client that can do these things."""

    runtime: Runtime
    who: Principal
    capabilities: list[str]

    async def create(self, cwd: str, meta: Mapping[str, Any] | None) -> SessionFacts:
        """A new session. `_meta.toolcrib` may hold more of the parameters of `session.create`."""
        asked = {**own_meta(meta), "cwd": absolute(cwd)}
        return await self._open("session.create", asked)

    async def resume(self, session_id: str) -> SessionFacts:
        """A session of the store, where it works as it did."""
        return await self._open("session.resume", {"session_id": session_id})

    async def fork(self, session_id: str) -> SessionFacts:
        """A new session that begins with what another one holds."""
        forked = await self._ask("session.fork", {"session_id": session_id})
        return await self.resume(forked.session_id)

    async def _open(self, operation: str, asked: dict[str, Any]) -> SessionFacts:
        asked |= {"capabilities": self.capabilities}
        brought = tools_of(self.capabilities)
        if not brought:
            return await self._ask(operation, asked)
        try:
            return await self._ask(operation, {**asked, "client_tools": brought})
        except Refused as refused:
            if refused.kind != "conflict":
                raise
        # The host may have a tool of such a name. Its own comes first, and the rest is brought.
        facts = await self._ask(operation, asked)
        session = {"session_id": facts.session_id}
        taken = {tool.name for tool in (await self._ask("tools.list", session)).tools}
        free = [tool for tool in brought if tool["name"] not in taken]
        again = {**session, "capabilities": self.capabilities, "client_tools": free}
        return await self._ask("session.resume", again)

    async def _ask(self, operation: str, asked: Mapping[str, Any]) -> Any:
        return await self.runtime.ask(operation, dict(asked), self.who)


def absolute(path: str) -> str:
    """A directory as the protocol wants it. Raises `Refused` (invalid)."""
    if not path.startswith("/"):
        raise Refused("invalid", "cwd must be an absolute path")
    return path


def own_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the client says to us and not to every agent."""
    own = (meta or {}).get("toolcrib", {})
    if not isinstance(own, dict):
        raise Refused("invalid", "_meta.toolcrib is an object")
    return dict(cast("dict[str, Any]", own))


PAGE: Final = 100


def listed(
    sessions: Sequence[SessionFacts], asked: ListSessionsRequest, default_cwd: str
) -> ListSessionsResponse:
    """One page of the sessions, the newest first; of one directory, if the client names one."""
    found = [_info(each, default_cwd) for each in reversed(sessions)]
    wanted = [each for each in found if asked.cwd in (None, each.cwd)]
    begin = _after(wanted, asked.cursor) if asked.cursor is not None else 0
    page = wanted[begin : begin + PAGE]
    is_last = begin + PAGE >= len(wanted)
    return ListSessionsResponse(sessions=page, next_cursor=None if is_last else page[-1].session_id)


def _after(sessions: Sequence[SessionInfo], cursor: str) -> int:
    for place, each in enumerate(sessions):
        if each.session_id == cursor:
            return place + 1
    raise Refused("invalid", "session/list: the cursor is not one of ours, or its session is gone")


def _info(facts: SessionFacts, default_cwd: str) -> SessionInfo:
    title = facts.metadata.get("title")
    return SessionInfo(
        session_id=facts.session_id,
        cwd=facts.cwd or default_cwd,
        title=title if isinstance(title, str) else None,
    )


_CAPABILITIES: Final = schema.AgentCapabilities(
    load_session=True,
    prompt_capabilities=schema.PromptCapabilities(embedded_context=True),
    mcp_capabilities=schema.McpCapabilities(http=CAN_MOUNT),
    session_capabilities=schema.SessionCapabilities(
        list=schema.SessionListCapabilities(),
        resume=schema.SessionResumeCapabilities(),
        fork=schema.SessionForkCapabilities(),
        close=schema.SessionCloseCapabilities(),
        delete=schema.SessionDeleteCapabilities(),
    ),
)


class Agent:
    """Answers one client. Every method takes the request as the SDK reads it, and raises `Refused`
    for what is not done.
    """

    def __init__(self, runtime: Runtime, who: Principal, editor: Editor) -> None:
        self._runtime = runtime
        self._who = who
        self._editor = editor
        self._sessions = EditorSessions(runtime, who, editor)
        self._servers = ClientServers(runtime, who)
        self._opening: SessionOpener | None = None
        self.extension = Extension(runtime, who, editor, self._sessions)

    @property
    def is_initialized(self) -> bool:
        """Whether the client has said what it can do."""
        return self._opening is not None

    def close(self) -> None:
        """The client is gone. What it has begun goes on, and what waits for it stays undecided."""
        self._sessions.close()
        self.extension.close()

    async def initialize(self, asked: schema.InitializeRequest) -> schema.InitializeResponse:
        """Agree on the protocol. There is one version: who speaks another may hang up."""
        client = asked.client_capabilities or schema.ClientCapabilities()
        self._opening = SessionOpener(self._runtime, self._who, capabilities_of(client))
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=_CAPABILITIES,
            agent_info=schema.Implementation(
                name="toolcrib", title="Toolcrib", version=__version__
            ),
            auth_methods=[],
        )

    async def new_session(self, asked: schema.NewSessionRequest) -> schema.NewSessionResponse:
        """A new session with the host's tools, the client's, and those of its MCP servers."""
        facts = await self._open.create(asked.cwd, asked.field_meta)
        meta = await self._mount(facts, asked.mcp_servers)
        self._join(facts, after=facts.last_seq)
        return schema.NewSessionResponse(session_id=facts.session_id, field_meta=meta)

    async def load_session(self, asked: schema.LoadSessionRequest) -> schema.LoadSessionResponse:
        """Open a session again, and tell all that happened in it."""
        facts = await self._reopen(asked.session_id)
        meta = await self._mount(facts, asked.mcp_servers)
        editor_session = self._join(facts, after=0, replay_until=facts.last_seq)
        await editor_session.updates.told(facts.last_seq)
        return schema.LoadSessionResponse(field_meta=meta)

    async def resume_session(
        self, asked: schema.ResumeSessionRequest
    ) -> schema.ResumeSessionResponse:
        """Open a session again, and tell only what happens from now on."""
        facts = await self._reopen(asked.session_id)
        meta = await self._mount(facts, asked.mcp_servers or ())
        self._join(facts, after=facts.last_seq)
        return schema.ResumeSessionResponse(field_meta=meta)

    async def fork_session(self, asked: schema.ForkSessionRequest) -> schema.ForkSessionResponse:
        """A new session that begins with what another one holds."""
        facts = await self._open.fork(asked.session_id)
        meta = await self._mount(facts, asked.mcp_servers or ())
        self._join(facts, after=facts.last_seq)
        return schema.ForkSessionResponse(session_id=facts.session_id, field_meta=meta)

    async def list_sessions(self, asked: schema.ListSessionsRequest) -> schema.ListSessionsResponse:
        """The sessions of the store, the newest first."""
        sessions = (await self._ask("session.list")).sessions
        return listed(sessions, asked, self._runtime.config.cwd)

    async def close_session(self, asked: schema.CloseSessionRequest) -> schema.CloseSessionResponse:
        """Cancel what a session does and let go of it; it can be loaded again."""
        self._sessions.leave(asked.session_id)
        await self._ask("session.close", session_id=asked.session_id)
        return schema.CloseSessionResponse()

    async def delete_session(
        self, asked: schema.DeleteSessionRequest
    ) -> schema.DeleteSessionResponse:
        """Delete a session and everything it holds."""
        self._sessions.leave(asked.session_id)
        await self._ask("session.delete", session_id=asked.session_id)
        return schema.DeleteSessionResponse()

    async def prompt(self, asked: schema.PromptRequest) -> schema.PromptResponse:
        """Have the model answer. What happens on the way is told before the answer is given."""
        editor_session, text = self._sessions.get(asked.session_id), text_of(asked.prompt)
        # Nothing is awaited up to here, so that a cancel that comes next finds the prompt.
        turn = asyncio.ensure_future(
            self._ask("prompt.send", session_id=asked.session_id, text=text)
        )
        editor_session.turns.add(turn)
        turn.add_done_callback(editor_session.turns.discard)
        try:
            result = await turn
        finally:
            await self._tell_all(asked.session_id)
        response = response_to(result)
        if (why := explained(result)) is not None:
            await self._editor.update(asked.session_id, why)
        return response

    async def cancel(self, asked: schema.CancelNotification) -> None:
        """Stop the prompt of a session: the model's request, its tools, and what it waits for."""
        editor_session = self._sessions.find(asked.session_id)
        while editor_session is not None:
            cancelled = await self._ask("prompt.cancel", session_id=asked.session_id)
            if cancelled.was_running or not editor_session.turns:
                return
            # Asked for, and not begun yet.
            await asyncio.sleep(0)

    async def _tell_all(self, session_id: str) -> None:
        try:
            facts = await self._ask("session.get", session_id=session_id)
        except Refused:
            # Deleted, or closing: there is nothing more to tell.
            return
        if (editor_session := self._sessions.find(session_id)) is not None:
            await editor_session.updates.told(facts.last_seq)

    async def _reopen(self, session_id: str) -> SessionFacts:
        if (await self._ask("session.get", session_id=session_id)).state == "closed":
            self._servers.forget(session_id)
        return await self._open.resume(session_id)

    async def _mount(
        self, facts: SessionFacts, servers: Sequence[OfferedServer]
    ) -> dict[str, Any] | None:
        """Give a session the client's servers, and tell what it lacks all the same."""
        session_id, cwd = facts.session_id, facts.cwd or self._runtime.config.cwd
        unfit = await self._servers.mount(session_id, servers, cwd)
        lacks = (await self._ask("session.get", session_id=session_id)).unavailable_tools
        found = {"unavailableServers": unfit, "unavailableTools": lacks}
        told = {name: each for name, each in found.items() if each}
        return {"toolcrib": told} if told else None

    def _join(self, facts: SessionFacts, *, after: int, replay_until: int = 0) -> EditorSession:
        capabilities = self._open.capabilities
        return self._sessions.join(
            facts.session_id, capabilities, after=after, replay_until=replay_until
        )

    @property
    def _open(self) -> SessionOpener:
        if self._opening is None:
            raise Refused("invalid", "send initialize first")
        return self._opening

    async def _ask(self, operation: str, **params: Any) -> Any:
        return await self._runtime.ask(operation, params, self._who)
