"""`mcp_servers:` in a host tools file: typed, frozen, and silent about secrets."""

from __future__ import annotations

import dataclasses

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.host_tools import parse_host_tools
from toolcrib.mcp_client import HttpServerConfig, MountTerms, StdioServerConfig
from toolcrib.mcp_client.config import client_server

FILE = """\
mcp_servers:
  files:
    command: files-server
    args: [--root, /data]
    env: {TOKEN: "${FILES_TOKEN}", MODE: read}
    cwd: servers
    allowed_tools: [read, list]
    denied_tools: [list]
    approval: policy
  docs:
    url: https://docs.example.org/${DOCS_ID}/mcp
    headers: {Authorization: "Bearer ${DOCS_TOKEN}"}
    prefix: d.
"""


def test_servers_are_read_in_order() -> None:
    """Each as the kind that it is, with the terms its tools are mounted on."""
    loaded = parse_host_tools(FILE)

    assert loaded.tools == ()
    assert loaded.mcp_servers == (
        StdioServerConfig(
            name="files",
            terms=MountTerms(
                prefix="files_",
                allowed_tools=("read", "list"),
                denied_tools=("list",),
                approval="policy",
            ),
            command="files-server",
            args=("--root", "/data"),
            env={"TOKEN": "${FILES_TOKEN}", "MODE": "read"},
            cwd="servers",
        ),
        HttpServerConfig(
            name="docs",
            terms=MountTerms(prefix="d."),
            url="https://docs.example.org/${DOCS_ID}/mcp",
            headers={"Authorization": "Bearer ${DOCS_TOKEN}"},
        ),
    )


def test_limits_are_read() -> None:
    """How long a call may take and how much of an answer is taken."""
    text = "mcp_servers: {files: {command: x, timeout: 2.5, max_output_chars: 100}}"
    [server] = parse_host_tools(text).mcp_servers

    assert (server.terms.timeout, server.terms.max_output_chars) == (2.5, 100)


@pytest.mark.parametrize("limit", ["timeout: 0", "max_output_chars: 0", "max_output_chars: 1.5"])
def test_limits_that_allow_nothing_are_refused(limit: str) -> None:
    """A server whose calls could never succeed is a mistake."""
    with pytest.raises(InvalidTool, match=r"mcp_servers\.files"):
        parse_host_tools(f"mcp_servers: {{files: {{command: x, {limit}}}}}")


def test_a_client_names_a_program_or_an_address() -> None:
    """What a client brings is one of both, under a name that tools can have."""
    server = client_server("My Files!", command="files", args=["-r"], env={"A": "${B}"})

    assert isinstance(server, StdioServerConfig)
    assert (server.name, server.terms.prefix) == ("My_Files_", "My_Files__")
    assert (server.args, dict(server.env)) == (("-r",), {"A": "${B}"})
    assert server.terms.approval == "always"
    assert isinstance(client_server("docs", url="https://docs.example.org/mcp"), HttpServerConfig)
    with pytest.raises(InvalidTool, match="needs either a command or a url"):
        client_server("x")
    with pytest.raises(InvalidTool, match="needs either a command or a url"):
        client_server("x", command="x", url="https://docs.example.org/mcp")


def test_a_person_approves_unless_the_file_says_otherwise() -> None:
    """R42: another server's word on its tools is not taken."""
    assert MountTerms(prefix="").approval == "always"


@pytest.mark.parametrize(
    ("terms", "served"),
    [
        (MountTerms(prefix=""), ["a", "b"]),
        (MountTerms(prefix="", allowed_tools=("a",)), ["a"]),
        (MountTerms(prefix="", denied_tools=("a",)), ["b"]),
        (MountTerms(prefix="", allowed_tools=("a", "b"), denied_tools=("b",)), ["a"]),
    ],
)
def test_denied_beats_allowed(terms: MountTerms, served: list[str]) -> None:
    """A tool is served when it is allowed and not denied."""
    assert [name for name in ("a", "b") if terms.serves(name)] == served


def test_secrets_come_from_the_environment() -> None:
    """They are filled in when a server is reached, so the file holds none."""
    files, docs = parse_host_tools(FILE).mcp_servers
    environ = {"FILES_TOKEN": "t1", "DOCS_TOKEN": "t2", "DOCS_ID": "77"}

    assert isinstance(files, StdioServerConfig)
    assert isinstance(docs, HttpServerConfig)
    assert files.filled_env(environ) == {"TOKEN": "t1", "MODE": "read"}
    assert docs.filled_headers(environ) == {"Authorization": "Bearer t2"}
    assert docs.filled_url(environ) == "https://docs.example.org/77/mcp"


def test_a_missing_variable_is_named_and_not_left_out() -> None:
    """A server would otherwise be reached without its credential."""
    files, docs = parse_host_tools(FILE).mcp_servers

    assert isinstance(files, StdioServerConfig)
    assert isinstance(docs, HttpServerConfig)
    with pytest.raises(InvalidTool, match="server 'files' needs the environment variable FILES_T"):
        files.filled_env({})
    with pytest.raises(InvalidTool, match="'docs' needs the environment variable DOCS_TOKEN"):
        docs.filled_headers({})
    with pytest.raises(InvalidTool, match="'docs' needs the environment variable DOCS_ID"):
        docs.filled_url({})


def test_what_is_filled_in_is_checked_too() -> None:
    """A variable cannot smuggle in a header of its own, nor lead to another scheme."""
    terms = MountTerms(prefix="")
    server = HttpServerConfig(
        name="docs", terms=terms, url="https://${HOST}/mcp", headers={"A": "${VALUE}"}
    )

    with pytest.raises(InvalidTool, match="must be a printable text"):
        server.filled_headers({"VALUE": "x\r\nB: y"})
    with pytest.raises(InvalidTool, match="user or password"):
        server.filled_url({"HOST": "me:word@example.org"})


def test_no_secret_is_shown() -> None:
    """Neither in a repr nor in what is told of a fault."""
    text = FILE.replace("${FILES_TOKEN}", "hush-1").replace("${DOCS_TOKEN}", "hush-2")
    shown = repr(parse_host_tools(text.replace("${DOCS_ID}", "hush-3")))
    bad = text.replace("read}", "5, KEY: [hush-4]}").replace("Bearer hush-2", "hush-2\\nX: y")
    with pytest.raises(InvalidTool) as form:
        parse_host_tools(bad)
    with pytest.raises(InvalidTool) as value:
        parse_host_tools(text.replace("Bearer hush-2", "hush-2\\nX: y"))

    for told in (shown, str(form.value), str(value.value)):
        assert "hush" not in told
    assert "mcp_servers.files: env.KEY must be text; put it in quotes" in str(form.value)
    assert "mcp_servers.docs: headers: the value of 'Authorization'" in str(value.value)


def test_a_server_is_frozen() -> None:
    """What was checked is what is used."""
    (files, _) = parse_host_tools(FILE).mcp_servers

    assert isinstance(files, StdioServerConfig)
    with pytest.raises(dataclasses.FrozenInstanceError):
        files.command = "other"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        files.env["TOKEN"] = "other"  # pyright: ignore[reportIndexIssue]
