"""Other MCP servers, named in a file of host tools: mounted by every command."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import MAIN, run

pytestmark = [pytest.mark.wire, pytest.mark.usefixtures("folder")]

FILE = ("--host-tools", "gateway.yaml")


@pytest.fixture(autouse=True)
def gateway(folder: Path) -> None:
    """A file that names one server: this very command, with the tools of a module."""
    server = {
        "command": sys.executable,
        "args": [*MAIN[1:], "mcp", "--host-tools-module", "cli_tools"],
        "allowed_tools": ["add"],
    }
    text = json.dumps({"mcp_servers": {"shop": server}})
    (folder / "gateway.yaml").write_text(text, "utf-8")


def test_their_tools_are_listed_and_nothing_is_said_to_be_left_out(folder: Path) -> None:
    """Under the prefix, and only those that are allowed."""
    done = run("tools", "list", *FILE, "--json", cwd=folder)

    assert [each["name"] for each in json.loads(done.stdout)["tools"]] == ["shop_add"]
    assert "not mounted" not in done.stderr


def test_their_calls_are_governed(folder: Path) -> None:
    """A person approves every call unless the file says otherwise."""
    call = ("tools", "call", "shop_add", "a=2", "b=3", *FILE)

    assert run(*call, cwd=folder).returncode == 4
    assert run(*call, "--approve", "deny", cwd=folder).returncode == 3
