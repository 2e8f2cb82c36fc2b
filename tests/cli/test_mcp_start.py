"""`toolcrib mcp` answers before its client has begun without it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.child_process import PYTHON_PATH

pytestmark = pytest.mark.wire
TOOLS = """\
from toolcrib import tool


@tool(requires_approval=True)
def order(item: str) -> str:
    \"\"\"Order an item.

    Args:
        item: Its name.
    \"\"\"
    return item
"""
HANDSHAKE: tuple[dict[str, Any], ...] = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
)
MOST_TIMES = 2.0
"""How many times the CPU time of `import mcp` the first answer may take. With the
whole SDK and every adapter imported it would take more.
"""


def environment(folder: Path) -> dict[str, str]:
    """Modules are compiled once, as they are for whoever has installed them."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PYTHONPATH": f"{folder}{os.pathsep}{PYTHON_PATH}",
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }


def children_cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def served(
    folder: Path, *options: str, env: dict[str, str] | None = None
) -> tuple[dict[str, Any], str]:
    """The list of tools that a new process answers with, and what it wrote on stderr."""
    (folder / "shop_tools.py").write_text(TOOLS)
    command = [sys.executable, "-m", "toolcrib", "mcp", "--host-tools-module", "shop_tools"]
    with subprocess.Popen(
        [*command, *options],
        cwd=folder,
        env=env or {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{PYTHON_PATH}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for message in HANDSHAKE:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        listed = json.loads(process.stdout.readline())
        process.stdin.close()
        notes = process.stderr.read()
    return listed["result"], notes


@pytest.mark.slow
def test_the_first_list_costs_little_more_than_the_sdk(tmp_path: Path) -> None:
    """CPU time, which does not depend on who else runs. The first round writes the byte code."""
    costs: list[tuple[float, float]] = []
    for _ in range(2):
        began = children_cpu()
        assert served(tmp_path, env=environment(tmp_path))[0]["tools"][0]["name"] == "order"
        answered = children_cpu()
        command = [sys.executable, "-c", "import mcp"]
        subprocess.run(command, env=environment(tmp_path), check=True)
        costs.append((answered - began, children_cpu() - answered))
    ours, imported = costs[-1]

    assert ours / imported < MOST_TIMES, costs


def test_the_sdk_is_imported_as_far_as_it_is_needed() -> None:
    """Its client and its HTTP libraries are loaded once somebody asks for them, as `import mcp`
    loads them.
    """
    code = (
        "import sys\n"
        "from toolcrib.mcp_client.sdk_packages import load_on_use\n"
        "load_on_use()\n"
        "import toolcrib.transports.mcp.server, toolcrib.transports.mcp.stdio\n"
        "late = ('mcp.client', 'httpx2', 'mcp.server.mcpserver')\n"
        "print([name in sys.modules for name in late])\n"
        "from mcp import Client\n"
        "import mcp.server\n"
        "print(Client.__name__, mcp.server.MCPServer.__name__, hasattr(mcp, 'nonsense'))\n"
        "load_on_use()\n"
        "print(sys.modules['mcp'].Client is Client)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == [
        "[False, False, False]",
        "Client MCPServer False",
        "True",
    ]


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ((), "approvals: nobody can decide a call that needs one; name --store FILE"),
        (
            ("--approve-by-elicitation", "always"),
            "approvals: only the person at the client can decide",
        ),
        (("--store", "crib.sqlite3"), None),
    ],
    ids=["none", "forms", "store"],
)
def test_without_a_store_it_says_who_can_decide(
    tmp_path: Path, options: tuple[str, ...], note: str | None
) -> None:
    """Whoever starts it learns that no other process can, before a call waits for ever."""
    _, notes = served(tmp_path, *options)
    flat = " ".join(notes.split())

    assert note in flat if note else "approvals:" not in flat
