"""Runs of the MCP Inspector's command line, the real client that people try servers with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.node.peers import ROOT, command, environment

Era = Literal["legacy", "auto", "modern"]
ERAS: tuple[Era, ...] = ("legacy", "auto", "modern")
TOOL_FAILED = 5
"""The status with which it ends when a tool's result is an error."""


@dataclass(frozen=True)
class Inspected:
    """How one run ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        return json.loads(self.stdout)["result"]

    @property
    def findings(self) -> list[Any]:
        """What `--strict` finds in the schemas of tools that not every client understands."""
        return json.loads(self.stdout).get("schemaFindings", [])


@dataclass(frozen=True)
class Inspector:
    """Runs the Inspector against one server, at home in a folder of its own."""

    home: Path
    server: Mapping[str, Any]

    async def run(self, era: Era, method: str, *options: str) -> Inspected:
        config = self.home / "servers.json"
        config.write_text(json.dumps({"mcpServers": {"toolcrib": dict(self.server)}}))
        asked = ("--config", str(config), "--server", "toolcrib", "--protocol-era", era)
        process = await asyncio.create_subprocess_exec(
            command("mcp-inspector"),
            "--cli",
            *asked,
            *("--format", "json", "--method", method, *options),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(HOME=str(self.home), MCP_INSPECTOR_SECRET_STORE="memory"),
        )
        out, err = await process.communicate()
        assert process.returncode is not None, "a process that was waited for has ended"
        return Inspected(process.returncode, out.decode(), err.decode())

    async def call(self, era: Era, tool: str, **arguments: Any) -> Inspected:
        given = ("--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        return await self.run(era, "tools/call", *given)


def over_stdio(home: Path, program: str, arguments: Sequence[str]) -> Inspector:
    """The server is a process that the Inspector starts."""
    return Inspector(home, {"command": program, "args": list(arguments)})


def over_http(home: Path, url: str, **headers: str) -> Inspector:
    """The server is there already."""
    return Inspector(home, {"type": "streamable-http", "url": url, "headers": headers})
