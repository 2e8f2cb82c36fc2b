"""Runs the demo, from the question to the proof.

The proof is that a tool gives the same value over HTTP and MCP as in the session.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import sys
import time
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from toolcrib.adapters.openai import OpenAIAdapter, download_files
from toolcrib.adapters.turn_tools import Governance
from toolcrib.approval import Actor, Approve, CallbackApprover, Deny, Reply, TerminalApprover
from toolcrib.approval.policy_file import load_policy
from toolcrib.demo.backends import BackendChoice, ModelAccess, open_model
from toolcrib.demo.screen import DemoScreen, seconds_since, shown_value
from toolcrib.demo.shop import placed_orders
from toolcrib.demo.story import (
    DATA,
    HOST_TOOLS,
    ORDER_TOOL,
    POLICY,
    QUESTION,
    OrderDecision,
    UploadedInputs,
    copy_inputs,
    prompt_for,
    upload_inputs,
)
from toolcrib.host_tools import HostToolRegistry
from toolcrib.host_tools.loader import load_host_tools
from toolcrib.ledger.events import ApprovalDecided, ToolInvoked
from toolcrib.ledger.record import events
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import create_runtime
from toolcrib.session.session import Session
from toolcrib.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from toolcrib.adapters.answer import PromptResponse
    from toolcrib.approval import ApprovalRequest, Approver
    from toolcrib.approval.policy import Policy


@dataclass(frozen=True, slots=True)
class SessionCall:
    """A call of the session."""

    tool: str
    arguments: Mapping[str, Any]
    was_approved: bool


@dataclass(frozen=True, slots=True)
class TransportValues:
    """The values of the same call over HTTP and MCP."""

    http: Any
    mcp: Any


async def call_over_transports(
    registry: HostToolRegistry, policy: Policy, call: SessionCall, cwd: str
) -> TransportValues:
    """Serve the tools on loopback, and call one over REST and over MCP with the SDK's client.

    Only calls that a person approved in the session are approved here.
    """
    from toolcrib.serving.tokens import Token, Tokens
    from toolcrib.transports.http import HttpServer

    def as_before(request: ApprovalRequest) -> Reply:
        is_same = request.tool.name == call.tool and request.arguments == call.arguments
        actor = Actor("rule", "what was approved in this demo")
        if call.was_approved and is_same:
            return Reply(Approve(), actor)
        return Reply(Deny("it was not approved in this demo"), actor)

    config = RuntimeConfig(
        host_tool_registry=registry, policy=policy, approver=CallbackApprover(as_before), cwd=cwd
    )
    secret = secrets.token_urlsafe(32)
    caller = Principal("demo", frozenset({"caller"}))
    async with create_runtime(config) as runtime:
        tokens = Tokens([Token(secret, caller)])
        async with HttpServer(runtime, port=0, tokens=tokens) as server:
            headers = {"Authorization": f"Bearer {secret}"}
            session = await runtime.as_principal(caller).create_session()
            over_http = await _over_http(server.url, headers, call, session.session_id)
            over_mcp = await _over_mcp(server.url, headers, call, session.session_id)
    return TransportValues(over_http, over_mcp)


async def _over_http(url: str, headers: dict[str, str], call: SessionCall, session: str) -> Any:
    from httpx2 import AsyncClient

    async with AsyncClient(base_url=url, headers=headers) as client:
        called = await client.post(
            f"/v1/sessions/{session}/tools/{call.tool}/call",
            json={"arguments": dict(call.arguments)},
        )
    return called.raise_for_status().json()["value"]


async def _over_mcp(url: str, headers: dict[str, str], call: SessionCall, session: str) -> Any:
    from httpx2 import AsyncClient
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        AsyncClient(headers={**headers, "toolcrib-session": session}) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        result = await client.call_tool(call.tool, dict(call.arguments))
    if result.structured_content is not None:
        return result.structured_content
    [content] = result.content
    return json.loads(content.text) if content.type == "text" else None


SESSION: Final = "demo"
LEDGER: Final = "ledger.sqlite3"
PROJECT: Final = "toolcrib.yaml"

End = Literal["equal", "different", "waiting"]
"""How the demo ends: a tool gives the same value over every transport, it does not, or a call waits
for approval.
"""


async def play(
    choice: BackendChoice, folder: Path, *, source: Path = DATA, opens: bool = False
) -> End:
    """Play the demo in a folder, which keeps its files and a copy of the inputs in `source`."""
    screen = DemoScreen()
    inputs = copy_inputs(source, folder)
    screen.path("Everything is kept in", folder)
    screen.say(f"The answers come from {choice.told}.")
    try:
        end = await _play_steps(choice, folder, inputs, screen, opens=opens)
    except asyncio.CancelledError:
        screen.say(f"Stopped. {_book_text(folder)}", "yellow")
        raise
    write_project(folder)
    screen.say("")
    if end != "waiting":
        screen.say("Change one of the inputs, and see what changes:")
        screen.command(f"toolcrib demo --inputs {shlex.quote(str(inputs))}")
    screen.say("See all of it in the console, a page for the browser:")
    screen.command(shlex.join(console_command(folder)))
    return end


def write_project(folder: Path) -> None:
    """Write a project file with the tools, the policy and the ledger of the demo, so that every
    command can be used on them.
    """
    lines = (
        "# The demo: its tools, its policy and its ledger, for every toolcrib command.",
        f"tools: {{files: [{json.dumps(str(HOST_TOOLS))}]}}",
        f"policy: {json.dumps(str(POLICY))}",
        f"store: {LEDGER}",
    )
    (folder / PROJECT).write_text("\n".join(lines) + "\n", "utf-8")


def console_command(folder: Path) -> list[str]:
    """The command that serves the console on the ledger of a demo, and opens it."""
    project = ["--project", str(folder / PROJECT)]
    return ["toolcrib", *project, "serve", "--port", "0", "--open"]


async def _play_steps(
    choice: BackendChoice, folder: Path, inputs: Path, screen: DemoScreen, *, opens: bool
) -> End:
    registry, policy = HostToolRegistry(), load_policy(POLICY)
    await load_host_tools(registry, files=[HOST_TOOLS])
    with SqliteStore(folder / LEDGER) as store:
        async with await Session.open(store, SESSION, cwd=str(folder)) as session:
            calls: list[ToolInvoked] = []
            session.bus.subscribe(ToolInvoked, calls.append)
            began = time.time()
            async with open_model(choice, folder / "provider", inputs / "site") as line:
                office = await upload_inputs(line.client, inputs)
                answer = await _ask(line, office, registry, policy, session, screen)
                if answer.output is None:
                    _show_waiting(session, folder, screen)
                    return "waiting"
                await _show_answer(answer, line, folder, screen, opens=opens)
            screen.step(f"The timeline ({seconds_since(began)} in all)")
            screen.timeline(calls, began, choice.provider)
            _show_ledger(session, folder, screen)
            is_equal = await _prove(session, calls, registry, policy, folder, screen)
    return "equal" if is_equal else "different"


def _book_text(folder: Path) -> str:
    """What is in the shop's book, whatever the answer says."""
    orders = placed_orders(folder)
    if not orders:
        return "Nothing was ordered."
    return " ".join(f"{order['order']} was placed: {order['kilos']} kg." for order in orders)


def _show_waiting(session: Session, folder: Path, screen: DemoScreen) -> None:
    """Nobody decided: say that nothing was ordered, and how to decide where the question waits."""
    store = shlex.quote(str(folder / LEDGER))
    screen.step(_book_text(folder).removesuffix("."))
    screen.say("   The order waits for approval. See it, and say no to it:")
    screen.command(f"toolcrib approvals list --store {store}")
    for request in session.approvals.pending():
        screen.command(f"toolcrib approvals deny {request.approval_id} --store {store}")


async def _ask(
    line: ModelAccess,
    office: UploadedInputs,
    registry: HostToolRegistry,
    policy: Policy,
    session: Session,
    screen: DemoScreen,
) -> PromptResponse[OrderDecision]:
    screen.step(QUESTION)
    prompt = prompt_for([tool.to_tool() for tool in registry.list_tools()], office)
    adapter = OpenAIAdapter(model=line.model, client=line.client)
    governance = Governance(policy=policy, approver=_approver(screen))
    with screen.watching(session):
        return await adapter.evaluate_async(
            prompt, session=session, stream=True, governance=governance
        )


def _approver(screen: DemoScreen) -> Approver:
    """You, on a terminal; else a rule that says so in the record."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        person = TerminalApprover()

        async def ask(request: ApprovalRequest) -> Reply | None:
            with screen.quiet():
                return await person.ask(request)

        return CallbackApprover(ask)

    def answer(request: ApprovalRequest) -> Reply:
        arguments = shown_value(request.arguments)
        screen.say(f"   approved by a rule: there is no terminal to ask at ({arguments})")
        return Reply(Approve(), Actor("rule", "demo without a terminal"))

    return CallbackApprover(answer)


async def _show_answer(
    answer: PromptResponse[OrderDecision],
    line: ModelAccess,
    folder: Path,
    screen: DemoScreen,
    *,
    opens: bool,
) -> None:
    screen.step("The answer, as a typed value")
    for field in fields(cast("OrderDecision", answer.output)):
        value = getattr(answer.output, field.name)
        screen.fact(field.name, "-" if value is None else shown_value(value))
    run: Any = answer.hosted_outputs.get("code_interpreter")
    search: Any = answer.hosted_outputs.get("web_search")
    for citation in getattr(search, "citations", ()):
        screen.fact("source", f"{citation.title}: {citation.url}")
    screen.fact("order book", _book_text(folder))
    if run is not None and run.files:
        for path in await download_files(line.client, run.files, folder):
            screen.fact("chart", str(path))
            if opens:
                webbrowser.open(Path(path).as_uri())


def _show_ledger(session: Session, folder: Path, screen: DemoScreen) -> None:
    screen.step("The ledger")
    head = session.verify()
    assert head is not None, "something happened"
    screen.say(f"   Verified: {head.seq} records, each bound to the one before. Check it yourself:")
    screen.command(f"toolcrib audit verify --store {shlex.quote(str(folder / LEDGER))}")


async def _prove(
    session: Session,
    calls: list[ToolInvoked],
    registry: HostToolRegistry,
    policy: Policy,
    folder: Path,
    screen: DemoScreen,
) -> bool:
    ours = [event for event in calls if event.origin == "local" and event.success]
    if not ours:
        return True
    approved = _approved_calls(session)
    event = next((event for event in ours if event.call_id in approved), None)
    # Of the others, one that needs no approval: an answer in a tool's place is no yes to it.
    event = event or next((event for event in ours if event.name != ORDER_TOOL), None)
    if event is None:
        return True
    screen.step(f"The same tool, {event.name}, over HTTP and MCP")
    call = SessionCall(event.name, event.params, was_approved=event.call_id in approved)
    there = await call_over_transports(registry, policy, call, str(folder))
    for way, value in (("here", event.value), ("HTTP", there.http), ("MCP", there.mcp)):
        screen.fact(way, shown_value(value), room=5)
    is_equal = event.value == there.http == there.mcp
    screen.say("   equal" if is_equal else "   NOT equal", "green" if is_equal else "red")
    return is_equal


def _approved_calls(session: Session) -> set[str]:
    """The calls that somebody let run, with the arguments as they are or edited."""
    return {
        event.call_id
        for event in events(session.records())
        if isinstance(event, ApprovalDecided) and isinstance(event.decided.decision, Approve)
    }
