"""An MCP client asks Toolcrib, which asks somebody else's MCP server, within the policy.

Run it in this folder: `python run.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

HERE = Path(__file__).parent
# The commands that were installed with the Python that runs this.
COMMANDS = Path(sys.executable).parent
PATH = os.pathsep.join([str(COMMANDS), os.environ.get("PATH", os.defpath)])


def toolcrib(*arguments: str) -> str:
    """Run a command of toolcrib's, as an operator does."""
    command = [str(COMMANDS / "toolcrib"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def call(client: Client, name: str, **arguments: Any) -> None:
    result = await client.call_tool(name, arguments)
    [said, *_] = [part.text for part in result.content if part.type == "text"]
    print(f"  {name}: {'error' if result.is_error else 'ok'}: {said}")


async def main(store: str) -> None:
    options = ["--host-tools", "gateway.yaml", "--policy", "policy.yaml", "--store", store]
    gateway = StdioServerParameters(
        command=str(COMMANDS / "toolcrib"),
        args=["mcp", *options],
        cwd=HERE,
        env={"PATH": PATH},
    )
    async with Client(gateway) as client:
        print("1. The client sees the other server's tools")
        print("  " + ", ".join(tool.name for tool in (await client.list_tools()).tools))
        print("2. The policy allows one and denies one; the third waits for a person")
        await call(client, "notes_search", word="saw")
        await call(client, "notes_delete_all")
        await call(client, "notes_add", text="Sharpen the saw.")
        print("3. Somebody says yes, in another process")
        [waiting] = json.loads(toolcrib("approvals", "list", "--store", store, "--json"))
        toolcrib("approvals", "approve", waiting["approval_id"], "--store", store, "--by", "ada")
        await call(client, "notes_add", text="Sharpen the saw.")
    print("4. All of it is written down")
    print("  " + toolcrib("audit", "verify", "--store", store).strip())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(str(Path(folder) / "crib.sqlite3")))
