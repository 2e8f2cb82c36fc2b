"""The `mcpServers` files of other clients are read as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.host_tools.host_tools_file import load_host_tools_file
from toolcrib.mcp_client.config import HttpServerConfig, StdioServerConfig


def load(folder: Path, document: Any) -> Any:
    path = folder / ".mcp.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document, indent=2))
    return load_host_tools_file(path)


def test_programs_and_addresses(tmp_path: Path) -> None:
    """Newcomers B: a file that another client has is not refused."""
    file = load(
        tmp_path,
        {
            "mcpServers": {
                "files": {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "${KEY}"}},
                "docs": {
                    "type": "http",
                    "url": "https://docs.example/mcp",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                },
            }
        },
    )
    files, docs = file.mcp_servers
    assert isinstance(files, StdioServerConfig)
    assert (files.command, files.args, dict(files.env)) == (
        "npx",
        ("-y", "server"),
        {"KEY": "${KEY}"},
    )
    assert isinstance(docs, HttpServerConfig)
    assert docs.url == "https://docs.example/mcp"
    assert files.terms.approval == "always"


def test_the_servers_of_vs_code(tmp_path: Path) -> None:
    """They are under another key, with another notation of variables."""
    file = load(tmp_path, {"servers": {"a": {"command": "a", "env": {"K": "${env:KEY}"}}}})
    assert dict(file.mcp_servers[0].env) == {"K": "${KEY}"}


def test_a_variable_may_have_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Claude Code; arguments are filled in too."""
    monkeypatch.delenv("PLACE", raising=False)
    monkeypatch.setenv("ROOT", "/srv")
    entry = {"command": "a", "args": ["${ROOT}"], "env": {"P": "${PLACE:-here}"}}
    [server] = load(tmp_path, {"mcpServers": {"a": entry}}).mcp_servers
    assert (server.args, dict(server.env)) == (("/srv",), {"P": "here"})


def test_keys_of_the_other_client_are_told_and_not_obeyed(tmp_path: Path) -> None:
    """`alwaysAllow` must not become an approval here."""
    file = load(
        tmp_path,
        {
            "mcpServers": {
                "a": {"command": "a", "alwaysAllow": ["x"]},
                "b": {"command": "b", "disabled": True},
            }
        },
    )
    assert [server.name for server in file.mcp_servers] == ["a"]
    assert file.mcp_servers[0].terms.approval == "always"
    assert [note.partition(": ")[2] for note in file.notes] == [
        "mcpServers.a: not used here: alwaysAllow",
        "mcpServers.b is disabled and not mounted",
    ]


def test_a_name_is_made_fit(tmp_path: Path) -> None:
    """Tools are named after it."""
    [server] = load(tmp_path, {"mcpServers": {"@acme/shop": {"command": "a"}}}).mcp_servers
    assert (server.name, server.terms.prefix) == ("acme_shop", "acme_shop_")


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ("{", ":1: this is not JSON"),
        ({"other": {}}, ':1: there is no "mcpServers"'),
        ({"mcpServers": {"a": {}}}, ":3: mcpServers.a: 'command' is missing"),
        (
            {"mcpServers": {"a": {"type": "sse", "url": "https://a.example"}}},
            ":3: mcpServers.a: type sse is not spoken here",
        ),
        (
            {"mcpServers": {"a": {"command": "x", "args": "y"}}},
            ":3: mcpServers.a: args has the wrong type",
        ),
        (
            {"mcpServers": {"a": {"command": "${NOT_SET_ANYWHERE}"}}},
            ":3: mcpServers.a: MCP server 'a' needs the environment variable NOT_SET_ANYWHERE",
        ),
    ],
)
def test_a_fault_has_its_line(tmp_path: Path, document: Any, fault: str) -> None:
    """In the format of the other files."""
    with pytest.raises(InvalidTool) as raised:
        load(tmp_path, document)
    assert fault in str(raised.value)
