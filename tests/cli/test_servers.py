"""The mounted MCP servers of a running server, at the command line."""

import json
from typing import Any

from tests.cli.command import invoke
from tests.cli.test_remote import stub

ENV = {"TOOLCRIB_TOKEN": "t" * 32}


def facts(**changes: Any) -> dict[str, Any]:
    return {
        "name": "files",
        "source": "mcp:files",
        "transport": "stdio",
        "target": "files-server",
        "state": "disconnected",
        "since": 1_000.0,
        "restarts": 2,
        "last_error": "it ended with status 7",
        "tools": ["files_read"],
        "withheld": {},
        "changes": [
            {"at": 900.0, "name": "files_read", "kind": "changed", "changes": ["description"]}
        ],
        **changes,
    }


def test_servers_are_listed_with_what_went_wrong() -> None:
    """State, restarts and the last error are on one line; what changed is a note."""
    with stub(body={"servers": [facts()]}) as server:
        done = invoke("servers", "list", "--url", server.url, env=ENV)

    assert done.exit_code == 0, done.stderr
    [line] = done.stdout.splitlines()
    assert line.split("\t")[:2] == ["files", "disconnected"]
    assert line.split("\t")[3:] == ["2", "1", "it ended with status 7"]
    assert "files_read was changed" in done.stderr


def test_the_list_is_json_for_programs() -> None:
    """Programs get every field that the server sent."""
    with stub(body={"servers": [facts()]}) as server:
        done = invoke("servers", "list", "--json", "--url", server.url, env=ENV)

    [listed] = json.loads(done.stdout)
    assert (listed["name"], listed["restarts"], listed["tools"]) == ("files", 2, ["files_read"])


def test_without_a_server_there_is_nothing_to_see() -> None:
    """Servers are mounted in a process that runs; the command says how to name it."""
    done = invoke("servers", "list")

    assert done.exit_code == 2
    assert "--url" in done.stderr
