"""Other MCP servers, named in a file of host tools: mounted by every command."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import MAIN, Served, run, serving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("folder")]

TRIES = 20
"""How often it is asked for what a server, that takes its time to start, will have."""


@pytest.fixture
def gateway(folder: Path) -> Path:
    """A file that names one server: this very command, with the tools of a module."""
    server = {
        "command": sys.executable,
        "args": [*MAIN[1:], "mcp", "--host-tools-module", "cli_tools"],
        "allowed_tools": ["add"],
    }
    file = folder / "gateway.yaml"
    file.write_text(json.dumps({"mcp_servers": {"shop": server}}), "utf-8")
    return file


async def names_at(served: Served, folder: Path) -> list[str]:
    """The tools of a server, as soon as it has any."""
    where = ("--url", served.url, "--token-file", "token", "--json")
    for _ in range(TRIES):
        done = await asyncio.to_thread(run, "tools", "list", *where, cwd=folder)
        if found := json.loads(done.stdout)["tools"]:
            return [each["name"] for each in found]
    return []


async def test_their_tools_are_served_and_governed(folder: Path, gateway: Path) -> None:
    """Under the prefix, only those that are allowed, and a person approves every call unless the
    file says otherwise.
    """
    async with serving("--host-tools", gateway, cwd=folder) as served:
        assert await names_at(served, folder) == ["shop_add"]
        where = ("--url", served.url, "--token-file", "token")
        call = ("tools", "call", "shop_add", "a=2", "b=3", *where)
        waiting = await asyncio.to_thread(run, *call, cwd=folder)
        assert await served.stop() == 0

    assert waiting.returncode == 4
    assert "not mounted" not in "".join(served.said)


def rename(file: Path, old: str, new: str) -> None:
    written = file.read_text("utf-8")
    file.write_text(written.replace(f'"{old}"', f'"{new}"'), "utf-8")


async def test_a_changed_file_mounts_other_servers(folder: Path, gateway: Path) -> None:
    """R32: with --reload, servers that a file names now are mounted and others are left."""
    async with serving("--host-tools", gateway, "--reload", cwd=folder) as served:
        assert await names_at(served, folder) == ["shop_add"]
        rename(gateway, "shop", "store")
        await served.hear("the mounted servers are now: store")
        assert await names_at(served, folder) == ["store_add"]
        assert await served.stop() == 0
