"""The proof: a tool gives the same value over HTTP and MCP as in the session."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.approval import Actor, Approve, CallbackApprover, Deny, Reply
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import create_runtime

if TYPE_CHECKING:
    from toolcrib.approval import ApprovalRequest
    from toolcrib.approval.policy import Policy
    from toolcrib.host_tools import HostToolRegistry


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

    What a person approved in the session is approved here too, and nothing else.
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
        host_tool_registry=registry, policy=policy, approver=CallbackApprover(as_before)
    )
    secret = secrets.token_urlsafe(32)
    caller = Principal("demo", frozenset({"read", "call"}))
    async with create_runtime(config) as runtime:
        tokens = Tokens([Token(secret, caller)])
        async with HttpServer(runtime, port=0, tokens=tokens) as server:
            headers = {"Authorization": f"Bearer {secret}"}
            session = await runtime.ask("session.create", {"cwd": cwd})
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
