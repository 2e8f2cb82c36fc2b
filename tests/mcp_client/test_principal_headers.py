"""Headers that differ by principal: from the environment, and from a command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer

from tests.mcp_client.mounted_servers import free_port
from tests.mcp_client.oauth_town import served, until
from toolcrib import RuntimeConfig
from toolcrib.errors import InvalidTool
from toolcrib.host_tools import parse_host_tools
from toolcrib.mcp_client.server_auth import for_principal
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime

pytestmark = pytest.mark.wire

ANN = Principal("ann", frozenset({"caller"}))
BEN = Principal("ben", frozenset({"caller"}))


def echo_app() -> Any:
    """An MCP server whose tool repeats a header of its request."""
    server = MCPServer("echo")

    @server.tool()
    def header(ctx: Context) -> str:
        """Repeat the header that says who calls."""
        request: Any = ctx.request_context.request
        return "-".join(str(request.headers.get("x-key")).split("-")[:2])

    return server.streamable_http_app()


def runtime_for(port: int, **entry: Any) -> Runtime:
    server = {"url": f"http://127.0.0.1:{port}/mcp", "approval": "policy", **entry}
    file = parse_host_tools(json.dumps({"mcp_servers": {"echo": server}}))
    return Runtime(RuntimeConfig(mcp_servers=file.mcp_servers))


async def key_of(runtime: Runtime, who: Principal) -> Any:
    """What the server gets with a call of a principal."""
    operations = runtime.as_principal(who)
    session_id = (await operations.create_session()).session_id
    result = await operations.call_tool(session_id, "echo_header", {})
    assert result.failure is None, result.failure
    return result.value


async def test_a_variable_of_each_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    """`{principal}` in a variable's name picks the variable of whoever calls; a principal without
    one is refused, and gets nobody else's.
    """
    monkeypatch.setenv("ECHO_KEY_ANN", "of-ann-0123456789")
    monkeypatch.setenv("ECHO_KEY_BEN", "of-ben-0123456789")
    port = free_port()
    headers = {"X-Key": "${ECHO_KEY_{principal}}"}
    async with served(echo_app(), port), runtime_for(port, headers=headers) as runtime:
        assert await key_of(runtime, ANN) == {"result": "of-ann"}
        assert await key_of(runtime, BEN) == {"result": "of-ben"}
        carl = runtime.as_principal(Principal("carl", frozenset({"caller"})))
        session_id = (await carl.create_session()).session_id
        reason = (await carl.list_tools(session_id)).unavailable["mcp:echo"]
        assert "ECHO_KEY_CARL" in reason


async def test_a_command_prints_the_headers_of_each_principal(tmp_path: Path) -> None:
    """It gets the name of the principal, runs once for many calls, and its values are secrets."""
    program = tmp_path / "store.py"
    program.write_text(
        "import json, pathlib, sys\n"
        f"log = pathlib.Path({str(tmp_path / 'log')!r})\n"
        "log.write_text((log.read_text() if log.exists() else '') + sys.argv[1] + '\\n')\n"
        "print(json.dumps({'X-Key': f'of-{sys.argv[1]}-0123456789'}))\n"
    )
    port = free_port()
    command = [sys.executable, str(program)]
    async with served(echo_app(), port), runtime_for(port, headers_command=command) as runtime:
        assert await key_of(runtime, ANN) == {"result": "of-ann"}
        assert await key_of(runtime, ANN) == {"result": "of-ann"}
        assert await key_of(runtime, BEN) == {"result": "of-ben"}
    assert sorted((tmp_path / "log").read_text().split()) == ["ann", "ben"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit(3)", "ended with status 3"),
        ("print('of-ann-0123456789')", "must print a JSON object"),
        ("import time; time.sleep(60)", "took more than 1 seconds"),
    ],
)
async def test_a_command_that_fails_is_said(code: str, reason: str) -> None:
    """The server is unavailable with the reason, which repeats nothing that was printed."""
    port = free_port()
    entry = {"headers_command": [sys.executable, "-c", code], "headers_timeout": 1}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with served(app, port), runtime_for(port, **entry) as runtime:
        ann = runtime.as_principal(ANN)
        session_id = (await ann.create_session()).session_id
        [server] = runtime.service.catalog.sessions.servers.personal.of("ann")
        await until(lambda: server.fault is not None and "headers_command" in server.fault)
        listed = (await ann.list_tools(session_id)).unavailable["mcp:echo"]
    assert reason in listed
    assert "0123456789" not in listed


@pytest.mark.parametrize("name", ["acme:3f1c", "Ann", "a b", "", "a-b"])
def test_a_name_that_could_be_somebody_elses_variable_is_refused(name: str) -> None:
    """No two principals have one variable."""
    with pytest.raises(InvalidTool, match="variable's name"):
        for_principal("${KEY_{principal}}", name)
