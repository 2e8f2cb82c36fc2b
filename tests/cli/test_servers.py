"""The mounted MCP servers of a running server, at the command line."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

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


PEER = Path(__file__).parents[1] / "mcp_client" / "raw_peer.py"


def gateway(folder: Path, *tools: str, pins: bool = True, text: str = "Reads.") -> Path:
    """A host tools file with a server that declares these tools."""
    listed = [
        {"name": each, "description": text, "inputSchema": {"type": "object"}} for each in tools
    ]
    folder.joinpath("tools.json").write_text(json.dumps(listed))
    # The tools come from a file, so that the server is started in the same way with others.
    program = (
        "import runpy, sys; sys.argv = ['peer', open('tools.json').read()]; "
        f"runpy.run_path({str(PEER)!r}, run_name='__main__')"
    )
    entry: dict[str, Any] = {"command": sys.executable, "args": ["-c", program], "cwd": str(folder)}
    if pins:
        entry["pins"] = str(folder / "pins.json")
    file = folder / "gateway.yaml"
    file.write_text(json.dumps({"mcp_servers": {"raw": entry}}))
    return file


@pytest.mark.wire
def test_tools_are_pinned_compared_and_accepted(tmp_path: Path) -> None:
    """The first pin is written; what is different later is shown, and taken over by --accept."""
    file = str(gateway(tmp_path, "read", "gone"))

    first = invoke("servers", "pin", "--host-tools", file)
    assert first.exit_code == 0, first.stderr
    assert "raw: 2 tools are pinned" in first.stderr
    assert invoke("servers", "diff", "--host-tools", file).exit_code == 0

    gateway(tmp_path, "read", "write", text="Reads all.")
    shown = invoke("servers", "diff", "--host-tools", file)
    assert shown.exit_code == 1
    assert shown.stdout.splitlines() == [
        "raw: read is changed",
        "  -description: Reads.",
        "  +description: Reads all.",
        "raw: write is new",
        "  +description: Reads all.",
        "  +input_schema: {",
        '  +input_schema:  "type": "object"',
        "  +input_schema: }",
        "raw: gone is gone",
    ]
    refused = invoke("servers", "pin", "--host-tools", file)
    assert refused.exit_code == 1
    assert "--accept" in refused.stderr
    assert invoke("servers", "diff", "--host-tools", file).exit_code == 1

    assert invoke("servers", "pin", "--accept", "--host-tools", file).exit_code == 0
    done = invoke("servers", "diff", "--json", "--host-tools", file)
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])


@pytest.mark.wire
def test_pins_need_a_file_and_a_server_that_answers(tmp_path: Path) -> None:
    """What is missing is said, and nothing is written."""
    file = gateway(tmp_path, "read", pins=False)
    without = invoke("servers", "pin", "--host-tools", str(file))
    assert without.exit_code == 1
    assert "pins: pins.json" in without.stderr

    file = gateway(tmp_path, "read")
    unknown = invoke("servers", "pin", "rwa", "--host-tools", str(file))
    assert "no MCP server 'rwa'; there are: raw" in unknown.stderr
    tmp_path.joinpath("tools.json").unlink()
    away = invoke("servers", "pin", "--host-tools", str(file))
    assert away.exit_code == 1
    assert "'raw' is not connected" in away.stderr
    assert not tmp_path.joinpath("pins.json").exists()
