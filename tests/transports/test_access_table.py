"""Who may do what: every operation x every role x own and foreign objects, on every transport, as
the table of docs/runtime.md says.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from acp.exceptions import RequestError
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from websockets.asyncio.client import connect

from tests.helpers.patience import PATIENCE
from tests.transports.acp.connected_editor import connected
from tests.transports.rpc_client import RpcClient
from toolcrib import RuntimeConfig, ToolContext, create_runtime
from toolcrib.approval.decision import Actor
from toolcrib.errors import Refused
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry
from toolcrib.ledger.events import PayloadsDeleted
from toolcrib.ledger.question_events import QuestionAsked
from toolcrib.runtime.operations import OPERATIONS
from toolcrib.runtime.principal import OWNER, ROLES, Principal, Role
from toolcrib.runtime.runtime import Runtime
from toolcrib.runtime.service import as_json
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.store.ledger_writer import entry_of
from toolcrib.store.store import Artifact, ArtifactKept
from toolcrib.transports.http.routes import ROUTES
from toolcrib.transports.http.server import HttpServer
from toolcrib.transports.peer import PEER_METHODS
from toolcrib.transports.pipes import Pipes
from toolcrib.transports.stdio import serve_stdio

Json = dict[str, Any]
Ask = Callable[[str, Json], Awaitable[Any]]
"""An operation over some transport. Raises `Refused`."""

PAGE: Final = Path(__file__).parents[2] / "docs" / "runtime.md"
_ROW: Final = re.compile(r"^\| `([a-z.$/]+)` \|(.*)\|$", re.M)
METHODS: Final = "method of a connection"
OWNERSHIPS: Final = ("own", "foreign")

NOT_OVER_MCP: Final = dict.fromkeys(
    OPERATIONS.keys() - {"tools.list", "tools.call"},
    "MCP has no method for it: its clients list and call tools, and read artifacts",
)
MCP_NEEDS: Final[Role] = "caller"
"""Over MCP a session is opened for every client, which takes this role."""


def table(heading: str = "operation") -> dict[str, dict[Role, dict[str, str]]]:
    """The documented answers by operation, role and ownership."""
    page = PAGE.read_text("utf-8")
    section = page[page.index(f"| {heading} | caller | approver") :].split("\n\n")[0]
    rows: dict[str, dict[Role, dict[str, str]]] = {}
    for name, cells in _ROW.findall(section):
        answers = [cell.strip().split(" / ") for cell in cells.split("|")]
        rows[name] = {
            role: dict(zip(OWNERSHIPS, pair, strict=True))
            for role, pair in zip(ROLES, answers, strict=True)
        }
    return rows


def who_has(role: Role) -> Principal:
    return Principal(f"the-{role}", frozenset({role}))


def maker(name: str) -> Principal:
    """A principal of this name with the role that makes things."""
    return Principal(name, frozenset({"caller"}))


def token_of(role: Role) -> str:
    return f"{role}-token-of-the-table"


@dataclass(frozen=True)
class Objects:
    """A session of one principal, a call that waits in it, one that asks, and a grant."""

    owner: str
    session_id: str
    call_id: str
    approval_id: str
    grant_id: str
    artifact_id: str
    question_id: str


def runtime_with_tools() -> Runtime:
    async def act(given: Json, context: ToolContext) -> str:
        return "done"

    async def write(given: Json, context: ToolContext) -> str:
        return "word " * 20_000

    async def ask(given: Json, context: ToolContext) -> str:
        return await context.ask("Which one?")

    registry = HostToolRegistry()
    registry.add(HostToolDefinition("ask", "To ask.", {"type": "object"}, ask))
    registry.add(HostToolDefinition("write", "To write much.", {"type": "object"}, write))
    for name, asks in (("act", False), ("careful", True)):
        schema: Json = {"type": "object"}
        registry.add(HostToolDefinition(name, f"To {name}.", schema, act, requires_approval=asks))
    return create_runtime(RuntimeConfig(host_tool_registry=registry, drain_seconds=0.1))


async def objects_of(runtime: Runtime, name: str) -> Objects:
    """New objects of a principal, so that no check changes what another one sees."""
    who, asked = maker(name), asyncio.Queue[QuestionAsked]()
    runtime.bus.subscribe(QuestionAsked, asked.put_nowait)
    made = await runtime.ask("session.create", {}, who)
    call: Json = {"session_id": made.session_id, "name": "careful"}
    granted, waiting = [await runtime.ask("tools.call", call, who) for _ in range(2)]
    terms = {"scope": "session", "uses": 1}
    decision = {"approval_id": granted.approval_id, "decision": "approve", "grant": terms}
    await runtime.ask("approvals.decide", decision, OWNER)
    grants = (await runtime.ask("grants.list", {}, OWNER)).grants
    written = await runtime.ask("tools.call", {**call, "name": "write"}, who)
    begin_call(runtime, {**call, "name": "ask"}, who)
    question = (await asked.get()).question
    return Objects(
        name,
        made.session_id,
        waiting.call_id,
        waiting.approval_id,
        grants[-1].grant_id,
        written.artifact_id,
        question.question_id,
    )


def begin_call(runtime: Runtime, call: Json, who: Principal) -> None:
    """Begin a call that goes on asking."""
    over_http = replace(who, transport="http")
    asking = asyncio.ensure_future(runtime.ask("tools.call", call, over_http))
    CALLS.add(asking)
    asking.add_done_callback(call_ended)


CALLS: Final[set[asyncio.Future[Any]]] = set()
"""Calls that ask; they end with their runtimes."""


def call_ended(call: asyncio.Future[Any]) -> None:
    CALLS.discard(call)
    if not call.cancelled():
        call.exception()


def params_of(operation: str, its: Objects) -> Json:
    session: Json = {"session_id": its.session_id}
    approval, grant = {"approval_id": its.approval_id}, {"grant_id": its.grant_id}
    special: dict[str, Json] = {
        "runtime.capabilities": {},
        "session.create": {"session_id": f"{its.owner}:{its.session_id}"},
        "session.list": {},
        "ping": {},
        "$/cancel": {"id": 0},
        "tools.info": {**session, "name": "act"},
        "tools.call": {**session, "name": "act", "arguments": {}},
        "tools.cancel": {**session, "call_id": its.call_id},
        "prompt.send": {**session, "text": "hello"},
        "artifacts.get": {**session, "artifact_id": its.artifact_id},
        "calls.list": {},
        "calls.sums": {"by": "principal"},
        "catalog.list": {},
        "catalog.get": {"name": "act"},
        "policy.explain": {"tool": "act"},
        "policy.get": {},
        "policy.check": {"text": "version: 1"},
        "policy.preview": {"draft": "version: 1\nunmatched: deny"},
        "servers.list": {},
        "approvals.list": {},
        "approvals.get": approval,
        "approvals.context": approval,
        "approvals.events": {},
        "approvals.decide": {**approval, "decision": "approve"},
        "questions.list": {},
        "questions.answer": {"question_id": its.question_id, "value": "this one"},
        "grants.list": {},
        "grants.get": grant,
        "grants.preview": {**approval, "grant": {"scope": "session"}},
        "grants.revoke": grant,
    }
    return special.get(operation, session)


def is_listed(operation: str, result: Any, its: Objects) -> bool:
    match operation:
        case "session.list":
            return its.session_id in {each["session_id"] for each in result["sessions"]}
        case "calls.list" | "policy.preview":
            return its.session_id in {each["session_id"] for each in result["calls"]}
        case "calls.sums":
            return its.owner in {each["key"] for each in result["sums"]}
        case "approvals.list":
            return its.approval_id in {each["approval_id"] for each in result["approvals"]}
        case "questions.list":
            return its.question_id in {each["question_id"] for each in result["questions"]}
        case "grants.list":
            return its.grant_id in {each["grant_id"] for each in result["grants"]}
        case _:
            return True


_KINDS: Final = {"forbidden": "403", "not_found": "404", "invalid": "422", "unavailable": "yes"}
"""What each refusal stands for in the table. Without a model, a prompt that is let in fails."""


async def answer_to(ask: Ask, operation: str, its: Objects) -> str:
    try:
        result = await ask(operation, params_of(operation, its))
    except Refused as refused:
        return _KINDS.get(refused.kind, refused.kind)
    return "yes" if is_listed(operation, result, its) else "hidden"


def test_the_table_has_every_operation_and_no_other() -> None:
    """A new operation needs a row, which says what each role may do with it."""
    assert set(table()) == set(OPERATIONS)
    assert {route.name for route in ROUTES} == set(OPERATIONS)
    assert set(table(METHODS)) == set(PEER_METHODS)


async def check(runtime: Runtime, ask: Ask, role: Role, carried: set[str]) -> None:
    """Compare a transport with every row of the table, for one role."""
    name, documented = who_has(role).name, {**table(), **table(METHODS)}
    for operation in sorted(carried):
        for ownership in OWNERSHIPS:
            expected = documented[operation][role][ownership]
            if expected == "-":
                # It has no object.
                continue
            its = await objects_of(runtime, name if ownership == "own" else "somebody-else")
            answer = await answer_to(ask, operation, its)

            assert answer == expected, (operation, role, ownership)


@pytest.mark.parametrize("role", ROLES)
async def test_the_table_holds_in_the_process(role: Role) -> None:
    """The operations themselves, before any transport."""
    async with runtime_with_tools() as runtime:

        async def ask(operation: str, params: Json) -> Any:
            return as_json(await runtime.ask(operation, params, who_has(role)))

        await check(runtime, ask, role, set(OPERATIONS))


@asynccontextmanager
async def listening() -> AsyncGenerator[tuple[Runtime, HttpServer]]:
    tokens = Tokens(Token(token_of(role), who_has(role)) for role in ROLES)
    async with (
        runtime_with_tools() as runtime,
        HttpServer(runtime, port=0, tokens=tokens) as server,
    ):
        yield runtime, server


STATUSES: Final = {403: "forbidden", 404: "not_found", 422: "invalid", 503: "unavailable"}


@pytest.mark.parametrize("role", ROLES)
async def test_the_table_holds_over_http(role: Role) -> None:
    """Every route, by the status of its answer."""
    async with (
        listening() as (runtime, server),
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
    ):
        headers = {"Authorization": f"Bearer {token_of(role)}"}
        routes = {route.name: route for route in ROUTES}

        async def ask(operation: str, params: Json) -> Any:
            route = routes[operation]
            path = route.path.format(**params)
            rest = {name: value for name, value in params.items() if name not in route.in_path}
            is_post = route.verb == "POST"
            answer = await client.request(
                route.verb,
                path,
                headers=headers,
                json=rest if is_post else None,
                params=None if is_post else rest,
            )
            if answer.status_code in STATUSES:
                raise Refused(STATUSES[answer.status_code], answer.text)  # pyright: ignore[reportArgumentType]
            assert answer.is_success, answer.text
            return answer.json()

        await check(runtime, ask, role, {route.name for route in ROUTES})


@pytest.mark.parametrize("role", ROLES)
async def test_a_stream_of_events_follows_the_table(role: Role) -> None:
    """Server-sent events of a session, or of a call in it: for those who get the plain answer."""
    async with (
        listening() as (runtime, server),
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
    ):
        headers = {"Authorization": f"Bearer {token_of(role)}", "Accept": "text/event-stream"}
        for operation, verb, path in (
            ("events.list", "GET", "events"),
            ("tools.call", "POST", "tools/act/call"),
        ):
            for ownership in OWNERSHIPS:
                name = who_has(role).name if ownership == "own" else "somebody-else"
                its = await objects_of(runtime, name)
                async with client.stream(
                    verb,
                    f"/v1/sessions/{its.session_id}/{path}",
                    headers=headers,
                    json={} if verb == "POST" else None,
                ) as answer:
                    status = answer.status_code
                expected = table()[operation][role][ownership]

                assert status == (200 if expected == "yes" else int(expected)), (operation, name)


@pytest.mark.parametrize("role", ROLES)
async def test_the_table_holds_over_a_socket(role: Role) -> None:
    """Every operation, by the kind of its error."""
    async with listening() as (runtime, server):
        uri = server.url.replace("http", "ws") + "/v1/ws"
        headers = {"Authorization": f"Bearer {token_of(role)}"}
        async with connect(uri, additional_headers=headers, proxy=None) as socket:
            client = RpcClient(lambda frame: socket.send(frame))

            async def read() -> None:
                async for frame in socket:
                    client.take(str(frame))

            reading = asyncio.ensure_future(read())
            await check(runtime, client.ask, role, {*OPERATIONS, *PEER_METHODS})
            reading.cancel()


@asynccontextmanager
async def piped(runtime: Runtime, who: Principal) -> AsyncGenerator[RpcClient]:
    """A client of `serve_stdio` on real pipes."""
    to_server, to_client = os.pipe(), os.pipe()
    pipes = Pipes(to_server[0], to_client[1])
    serving = asyncio.ensure_future(serve_stdio(runtime, pipes, who))

    async def write(frame: str) -> None:
        await asyncio.to_thread(os.write, to_server[1], frame.encode() + b"\n")

    client = RpcClient(write)
    loop, pending = asyncio.get_running_loop(), bytearray()

    def read() -> None:
        pending.extend(os.read(to_client[0], 65_536))
        *lines, rest = bytes(pending).split(b"\n")
        pending[:] = rest
        for line in lines:
            client.take(line.decode())

    loop.add_reader(to_client[0], read)
    try:
        await client.ask("ping")
        yield client
    finally:
        os.close(to_server[1])
        await serving
        loop.remove_reader(to_client[0])
        os.close(to_client[0])


@pytest.mark.parametrize("role", ROLES)
async def test_the_table_holds_over_stdio(role: Role) -> None:
    """Whoever the process serves on its pipes has the same rights there."""
    runtime = runtime_with_tools()
    async with piped(runtime, who_has(role)) as client:
        await check(runtime, client.ask, role, {*OPERATIONS, *PEER_METHODS})


@pytest.mark.parametrize("role", ROLES)
async def test_the_table_holds_over_acp(role: Role) -> None:
    """Every operation as an extension method of an editor's connection."""
    who = replace(who_has(role), transport="acp")
    async with runtime_with_tools() as runtime, connected(runtime, who) as (_, desk):
        await desk.agent.initialize(protocol_version=1)

        async def ask(operation: str, params: Json) -> Any:
            try:
                return await desk.ask(operation, **params)
            except RequestError as error:
                data: Any = error.data
                raise Refused(data["kind"], str(error)) from None

        await check(runtime, ask, role, set(OPERATIONS))


@pytest.mark.parametrize("role", ROLES)
async def test_the_methods_of_acp_follow_the_table(role: Role) -> None:
    """The protocol's own methods on a session are the operations of the table."""
    who, documented = replace(who_has(role), transport="acp"), table()
    methods: dict[str, Callable[[Any, str], Awaitable[Any]]] = {
        "session.resume": lambda agent, its: agent.resume_session(cwd="/", session_id=its),
        "session.fork": lambda agent, its: agent.fork_session(cwd="/", session_id=its),
        "session.close": lambda agent, its: agent.close_session(session_id=its),
    }
    async with runtime_with_tools() as runtime, connected(runtime, who) as (_, desk):
        await desk.agent.initialize(protocol_version=1)
        for operation, method in methods.items():
            for ownership in OWNERSHIPS:
                name = who.name if ownership == "own" else "somebody-else"
                its = await objects_of(runtime, name)
                expected = documented[operation][role][ownership]
                answer = "yes"
                try:
                    await method(desk.agent, its.session_id)
                except RequestError as error:
                    data: Any = error.data
                    answer = _KINDS[data["kind"]]
                assert answer == expected, (operation, role, ownership)
        for ownership in OWNERSHIPS:
            its = await objects_of(runtime, who.name if ownership == "own" else "somebody-else")
            answer = await _listed_over_acp(desk.agent, its.session_id)

            assert answer == documented["session.list"][role][ownership], (role, ownership)


async def _listed_over_acp(agent: Any, session_id: str) -> str:
    try:
        listed = (await agent.list_sessions()).sessions
    except RequestError as error:
        data: Any = error.data
        return _KINDS[data["kind"]]
    return "yes" if session_id in {each.session_id for each in listed} else "hidden"


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("role", ROLES)
async def test_the_table_holds_over_mcp(role: Role, era: str) -> None:
    """Listing and calling tools in a session that the header names. Every other operation is named
    with the reason why MCP does not carry it.
    """
    assert set(NOT_OVER_MCP) | {"tools.list", "tools.call"} == set(OPERATIONS)
    documented = table()
    async with listening() as (runtime, server):
        for operation in ("tools.list", "tools.call"):
            for ownership in OWNERSHIPS:
                name = who_has(role).name if ownership == "own" else "somebody-else"
                its = await objects_of(runtime, name)
                expected = documented[operation][role][ownership]
                if role not in (MCP_NEEDS, "admin"):
                    expected = "403"
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(
                        _mcp_client(server, era, role, its.session_id)
                    )
                    answer = await _mcp_answer(client, operation)

                assert answer == expected, (operation, role, ownership)


@asynccontextmanager
async def _mcp_client(
    server: HttpServer, era: str, role: Role, session_id: str
) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {token_of(role)}", "Toolcrib-Session": session_id}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, mode=era) as client:
            yield client


async def _mcp_answer(client: Client, operation: str) -> str:
    try:
        if operation == "tools.list":
            await client.list_tools()
        else:
            assert not (await client.call_tool("act", {})).is_error
    except MCPError as error:
        return _KINDS[error.error.data["kind"]]
    return "yes"


async def test_an_artifact_of_another_session_is_not_read_over_mcp() -> None:
    """The id of an artifact is of no use outside of the session that holds it."""
    async with listening() as (runtime, server):
        foreign = await objects_of(runtime, "somebody-else")
        session = runtime.service._sessions.find(foreign.session_id)  # pyright: ignore[reportPrivateUsage]
        assert session is not None
        effect = ArtifactKept(Artifact("artifact_1", "c", "secret text"))
        session.session.append_soon(_note(foreign.session_id), (effect,))
        assert runtime.store.artifact(foreign.session_id, "artifact_1") == "secret text"
        for named in (foreign.session_id, "the-caller:own"):
            async with _mcp_client(server, "2026-07-28", "caller", named) as client:
                with pytest.raises(MCPError) as refused:
                    await client.read_resource("toolcrib://artifacts/artifact_1")

            assert "secret" not in str(refused.value)


def _note(session_id: str) -> Any:
    return entry_of(PayloadsDeleted(session_id=session_id, at=1.0, actor=Actor("person", "x")))
