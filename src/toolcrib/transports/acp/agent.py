"""The methods of the Agent Client Protocol, answered by a runtime.

An editor may name MCP servers when it opens a session; they are mounted in that session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from acp import schema
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AcpMcpServer,
    HttpMcpServer,
    ListSessionsRequest,
    ListSessionsResponse,
    McpServerStdio,
    SessionInfo,
    SseMcpServer,
)

from toolcrib._version import __version__
from toolcrib.errors import InvalidTool, Refused
from toolcrib.mcp_client.config import McpServerConfig, client_server, client_source
from toolcrib.runtime.messages import MAX_SESSIONS
from toolcrib.session.questions import answered_by
from toolcrib.transports.acp.client_tools import capabilities_of, tools_of
from toolcrib.transports.acp.extension import Extension
from toolcrib.transports.acp.prompts import failure_message, response_to, text_of
from toolcrib.transports.acp.questions import EditorAnswers, shows_forms
from toolcrib.transports.acp.sessions import EditorSessions

if TYPE_CHECKING:
    from toolcrib.runtime.messages import SessionFacts
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.acp.editor import Editor
    from toolcrib.transports.acp.sessions import EditorSession


CAN_MOUNT: Final = find_spec("mcp") is not None
"""Whether the MCP SDK is installed."""

OfferedServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio


class ClientServers:
    """Mounts the servers of an editor in sessions, each once while the session is open."""

    def __init__(self, runtime: Runtime, who: Principal) -> None:
        self._runtime = runtime
        self._who = who
        self._mounted: dict[str, set[str]] = {}

    async def mount(
        self, session_id: str, servers: Sequence[OfferedServer], cwd: str
    ) -> dict[str, str]:
        """Mount servers in a session; returns those that cannot be mounted, with the reason. The
        tools of a disconnected server are added when it connects.
        """
        if not self._who.may("admin"):
            # Mounting a server starts a program, which is more than calling tools.
            return {server.name: "mounting servers requires the role 'admin'" for server in servers}
        wanted: list[McpServerConfig] = []
        unfit: dict[str, str] = {}
        have = self._mounted.setdefault(session_id, set())
        for server in servers:
            try:
                config = _config(server, cwd)
            except InvalidTool as error:
                unfit[server.name] = str(error)
                continue
            if (source := client_source(config)) not in have:
                have.add(source)
                wanted.append(config)
        if wanted:
            await self._runtime.service.mount_servers(session_id, wanted, self._who)
        return unfit

    def forget(self, session_id: str) -> None:
        """Forget the servers of a closed session."""
        self._mounted.pop(session_id, None)


def _config(server: OfferedServer, cwd: str) -> McpServerConfig:
    """The configuration of a server. Raises `InvalidTool`."""
    match server:
        case McpServerStdio(name=name, command=command, args=args):
            env = {variable.name: variable.value for variable in server.env}
            return client_server(name, command=command, args=args, env=env, cwd=cwd)
        case HttpMcpServer(name=name, url=url):
            headers = {header.name: header.value for header in server.headers}
            return client_server(name, url=url, headers=headers)
        case SseMcpServer():
            raise InvalidTool("a server over SSE cannot be mounted; use HTTP")
        case AcpMcpServer():
            raise InvalidTool("a server over ACP cannot be mounted; use stdio or HTTP")


@dataclass(frozen=True, slots=True)
class SessionOpener:
    """Opens sessions for an editor with these capabilities, with its client tools."""

    runtime: Runtime
    who: Principal
    capabilities: list[str]

    async def create(self, cwd: str, meta: Mapping[str, Any] | None) -> SessionFacts:
        """Create a session. `_meta.toolcrib` may hold more parameters of `session.create`."""
        params = {**own_meta(meta), "cwd": absolute(cwd)}
        return await self._open("session.create", params)

    async def resume(self, session_id: str) -> SessionFacts:
        """Open a session of the store, in its stored directory."""
        return await self._open("session.resume", {"session_id": session_id})

    async def fork(self, session_id: str) -> SessionFacts:
        """Create a session that begins with the history of another one."""
        forked = await self._ask("session.fork", {"session_id": session_id})
        return await self.resume(forked.session_id)

    async def _open(self, operation: str, params: dict[str, Any]) -> SessionFacts:
        params |= {"capabilities": self.capabilities}
        client_tools = tools_of(self.capabilities)
        if not client_tools:
            return await self._ask(operation, params)
        try:
            return await self._ask(operation, {**params, "client_tools": client_tools})
        except Refused as refused:
            if refused.kind != "conflict":
                raise
        # A host tool has one of the names. It takes precedence; the other tools are declared.
        facts = await self._ask(operation, params)
        session = {"session_id": facts.session_id}
        taken = {tool.name for tool in (await self._ask("tools.list", session)).tools}
        free = [tool for tool in client_tools if tool["name"] not in taken]
        again = {**session, "capabilities": self.capabilities, "client_tools": free}
        return await self._ask("session.resume", again)

    async def _ask(self, operation: str, params: Mapping[str, Any]) -> Any:
        return await self.runtime.ask(operation, dict(params), self.who)


def absolute(path: str) -> str:
    """An absolute path, as the protocol requires. Raises `Refused` (invalid)."""
    if not path.startswith("/"):
        raise Refused("invalid", "cwd must be an absolute path")
    return path


def own_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters in `_meta.toolcrib`, which are not part of the protocol."""
    own = (meta or {}).get("toolcrib", {})
    if not isinstance(own, dict):
        raise Refused("invalid", "_meta.toolcrib must be an object")
    return dict(cast("dict[str, Any]", own))


PAGE: Final = 100


def session_page(
    sessions: Sequence[SessionFacts], request: ListSessionsRequest, default_cwd: str
) -> ListSessionsResponse:
    """One page of the sessions, newest first; of one directory, if the client names one."""
    infos = [_info(facts, default_cwd) for facts in reversed(sessions)]
    wanted = [info for info in infos if request.cwd in (None, info.cwd)]
    begin = _after(wanted, request.cursor) if request.cursor is not None else 0
    page = wanted[begin : begin + PAGE]
    is_last = begin + PAGE >= len(wanted)
    return ListSessionsResponse(sessions=page, next_cursor=None if is_last else page[-1].session_id)


def _after(sessions: Sequence[SessionInfo], cursor: str) -> int:
    for place, session in enumerate(sessions):
        if session.session_id == cursor:
            return place + 1
    raise Refused("invalid", "session/list: unknown cursor; start again without one")


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
    """Answers one editor. Every method takes the request of the SDK, and raises `Refused` when it
    cannot be done.
    """

    def __init__(self, runtime: Runtime, who: Principal, editor: Editor) -> None:
        self._runtime = runtime
        self._who = who
        self._editor = editor
        self._sessions = EditorSessions(runtime, who, editor)
        self._servers = ClientServers(runtime, who)
        self._opening: SessionOpener | None = None
        self._has_forms = False
        self.extension = Extension(runtime, who, editor, self._sessions)

    @property
    def is_initialized(self) -> bool:
        """Whether the client has sent `initialize`."""
        return self._opening is not None

    def close(self) -> None:
        """The editor has disconnected. Its prompts continue, and its approvals stay pending."""
        self._sessions.close()
        self.extension.close()

    async def initialize(self, request: schema.InitializeRequest) -> schema.InitializeResponse:
        """Agree on the protocol. There is one version; a client of another one may disconnect."""
        client = request.client_capabilities or schema.ClientCapabilities()
        self._opening = SessionOpener(self._runtime, self._who, capabilities_of(client))
        self._has_forms = shows_forms(client)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=_CAPABILITIES,
            agent_info=schema.Implementation(
                name="toolcrib", title="Toolcrib", version=__version__
            ),
            auth_methods=[],
        )

    async def new_session(self, request: schema.NewSessionRequest) -> schema.NewSessionResponse:
        """Create a session with the tools of the host, the editor and the editor's MCP servers."""
        facts = await self._open.create(request.cwd, request.field_meta)
        meta = await self._mount(facts, request.mcp_servers)
        await self._open_session(facts, after=facts.last_seq)
        return schema.NewSessionResponse(session_id=facts.session_id, field_meta=meta)

    async def load_session(self, request: schema.LoadSessionRequest) -> schema.LoadSessionResponse:
        """Open a session again and replay its history."""
        facts = await self._reopen(request.session_id)
        meta = await self._mount(facts, request.mcp_servers)
        editor_session = await self._open_session(facts, after=0, replay_until=facts.last_seq)
        await editor_session.updates.sent(facts.last_seq)
        return schema.LoadSessionResponse(field_meta=meta)

    async def resume_session(
        self, request: schema.ResumeSessionRequest
    ) -> schema.ResumeSessionResponse:
        """Open a session again without its history."""
        facts = await self._reopen(request.session_id)
        meta = await self._mount(facts, request.mcp_servers or ())
        await self._open_session(facts, after=facts.last_seq)
        return schema.ResumeSessionResponse(field_meta=meta)

    async def fork_session(self, request: schema.ForkSessionRequest) -> schema.ForkSessionResponse:
        """Create a session that begins with the history of another one."""
        facts = await self._open.fork(request.session_id)
        meta = await self._mount(facts, request.mcp_servers or ())
        await self._open_session(facts, after=facts.last_seq)
        return schema.ForkSessionResponse(session_id=facts.session_id, field_meta=meta)

    async def list_sessions(
        self, request: schema.ListSessionsRequest
    ) -> schema.ListSessionsResponse:
        """The sessions of the store, newest first."""
        sessions: list[SessionFacts] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await self._ask("session.list", cursor=cursor or None, limit=MAX_SESSIONS)
            sessions += page.sessions
            cursor = page.cursor
        return session_page(sessions, request, self._runtime.config.cwd)

    async def close_session(
        self, request: schema.CloseSessionRequest
    ) -> schema.CloseSessionResponse:
        """Cancel the work of a session and close it; it can be loaded again."""
        self._sessions.close_session(request.session_id)
        await self._ask("session.close", session_id=request.session_id)
        return schema.CloseSessionResponse()

    async def delete_session(
        self, request: schema.DeleteSessionRequest
    ) -> schema.DeleteSessionResponse:
        """Delete a session and everything it holds."""
        self._sessions.close_session(request.session_id)
        await self._ask("session.delete", session_id=request.session_id)
        return schema.DeleteSessionResponse()

    async def prompt(self, request: schema.PromptRequest) -> schema.PromptResponse:
        """Send a prompt to the model. Its updates are sent before the response."""
        editor_session, text = self._sessions.get(request.session_id), text_of(request.prompt)
        # Nothing is awaited before this, so that the next message, a cancel, finds the prompt.
        with answered_by(EditorAnswers(self._editor, self._who, self._has_forms)):
            turn = asyncio.ensure_future(
                self._ask("prompt.send", session_id=request.session_id, text=text)
            )
        editor_session.turns.add(turn)
        turn.add_done_callback(editor_session.turns.discard)
        try:
            result = await turn
        finally:
            await self._send_all(request.session_id)
        response = response_to(result)
        if (message := failure_message(result)) is not None:
            await self._editor.update(request.session_id, message)
        return response

    async def cancel(self, request: schema.CancelNotification) -> None:
        """Cancel the prompt of a session, with its model request, its calls and its approvals."""
        editor_session = self._sessions.find(request.session_id)
        while editor_session is not None:
            cancelled = await self._ask("prompt.cancel", session_id=request.session_id)
            if cancelled.was_running or not editor_session.turns:
                return
            # The prompt is requested and has not started yet.
            await asyncio.sleep(0)

    async def _send_all(self, session_id: str) -> None:
        try:
            facts = await self._ask("session.get", session_id=session_id)
        except Refused:
            # The session is deleted or closing: there is nothing more to send.
            return
        if (editor_session := self._sessions.find(session_id)) is not None:
            await editor_session.updates.sent(facts.last_seq)

    async def _reopen(self, session_id: str) -> SessionFacts:
        if (await self._ask("session.get", session_id=session_id)).state == "closed":
            self._servers.forget(session_id)
        return await self._open.resume(session_id)

    async def _mount(
        self, facts: SessionFacts, servers: Sequence[OfferedServer]
    ) -> dict[str, Any] | None:
        """Mount the editor's MCP servers; the result names what the session lacks."""
        session_id, cwd = facts.session_id, facts.cwd or self._runtime.config.cwd
        unfit = await self._servers.mount(session_id, servers, cwd)
        lacks = (await self._ask("session.get", session_id=session_id)).unavailable_tools
        unavailable = {"unavailableServers": unfit, "unavailableTools": lacks}
        meta = {name: reasons for name, reasons in unavailable.items() if reasons}
        return {"toolcrib": meta} if meta else None

    async def _open_session(
        self, facts: SessionFacts, *, after: int, replay_until: int = 0
    ) -> EditorSession:
        capabilities = self._open.capabilities
        return await self._sessions.open(
            facts.session_id, capabilities, after=after, replay_until=replay_until
        )

    @property
    def _open(self) -> SessionOpener:
        if self._opening is None:
            raise Refused("invalid", "send initialize first")
        return self._opening

    async def _ask(self, operation: str, **params: Any) -> Any:
        return await self._runtime.ask(operation, params, self._who)
