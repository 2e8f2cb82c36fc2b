"""The suite over MCP on the pipes of a real process."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
from mcp import Client, StdioServerParameters

from tests.helpers.child_process import PYTHON_PATH
from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import OWNERS
from tests.transports.mcp.shop_client import OverMcp
from tests.transports.stdio_host import ROOT
from tests.transports.suite import SESSION, Driver, column


@asynccontextmanager
async def opened(has_model: bool) -> AsyncGenerator[Driver]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "url"
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "tests.transports.mcp.stdio_shop", str(place)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        )
        async with (
            Client(command, mode="legacy") as mcp,
            httpx2.AsyncClient(
                base_url=place.read_text(),
                headers={"Authorization": f"Bearer {OWNERS}"},
                timeout=PATIENCE,
            ) as client,
        ):
            driver = OverMcp(mcp, client)
            await driver.ask("session.create", {"session_id": SESSION})
            yield driver


column("mcp-stdio", opened, "calls")
