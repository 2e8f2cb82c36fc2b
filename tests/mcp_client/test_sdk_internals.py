"""The private parts of the `mcp` SDK: a release that changes one is named here."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import mcp_types
import pytest
from mcp import Client
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server

import toolcrib
from toolcrib.errors import UsageError
from toolcrib.mcp_client.sdk_internals import PRIVATE_NAMES, connection_of, wrap_outbound


async def test_a_request_leads_to_its_connection() -> None:
    """`ServerSession._connection` holds state and clean-up, the same for all requests of one."""
    connections: list[Connection] = []

    async def list_tools(ctx: Any, params: Any) -> mcp_types.ListToolsResult:
        connections.append(connection_of(ctx))
        return mcp_types.ListToolsResult(tools=[])

    async with Client(Server("sample", on_list_tools=list_tools), mode="legacy") as client:
        await client.list_tools()
        await client.list_tools()

    first, second = connections
    assert first is second
    assert isinstance(first, Connection)
    assert (first.state, hasattr(first.exit_stack, "push_async_callback")) == ({}, True)


def test_the_type_of_a_transports_streams_is_where_it_was() -> None:
    """It is used in annotations only, which no other test imports."""
    assert hasattr(import_module("mcp.client._transport"), "TransportStreams")


def test_an_sdk_without_it_is_named_with_its_version() -> None:
    """The error says which library, which release and what to install."""
    ctx = cast("Any", SimpleNamespace(session=object()))

    with pytest.raises(UsageError, match=re.escape(f"mcp {version('mcp')} has no ServerSession.")):
        connection_of(ctx)
    with pytest.raises(UsageError, match=re.escape(f"mcp {version('mcp')} has no ServerSession.")):
        wrap_outbound(ctx, lambda channel: channel)


def test_no_other_module_uses_private_parts_of_the_sdk() -> None:
    """All of them are in `sdk_internals`, with the reason."""
    assert list(PRIVATE_NAMES) == [
        "mcp.client._transport:TransportStreams",
        "mcp.server.session:ServerSession._connection",
        "mcp.server.session:ServerSession._request_outbound",
    ]
    source = Path(toolcrib.__file__).parent
    private = re.compile(r"\bmcp(\.\w+)*\._\w+|ctx\.session\._\w+|\bfrom mcp[\w.]* import _")
    users = {
        file.relative_to(source).as_posix()
        for folder in ("mcp_client", "transports", "embedded", "runtime")
        for file in source.joinpath(folder).rglob("*.py")
        if private.search(file.read_text("utf-8"))
    }
    assert users == {"mcp_client/sdk_internals.py"}
