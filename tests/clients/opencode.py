"""OpenCode as a client of the provider, with the MCP server's tools."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

PACKAGE: Final = "opencode-ai@1.18.33"
FOLDER: Final = Path(__file__).parents[2] / "build" / "clients" / "opencode"


def installed() -> str:
    """The command of OpenCode, installed from npm unless it is there."""
    command = FOLDER / "node_modules" / ".bin" / "opencode"
    if not command.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm")
        assert npm is not None, "npm installs OpenCode, and is not there"
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([npm, "install", "--prefix", str(FOLDER), *options, PACKAGE], check=True)
    return str(command)


def configuration() -> str:
    """The provider as an OpenAI-compatible one, and the MCP server."""
    token = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    return json.dumps(
        {
            "provider": {
                "crib": {
                    "npm": "@ai-sdk/openai",
                    "options": {
                        "baseURL": os.environ["PROVIDER_URL"],
                        "apiKey": os.environ["TOKEN"],
                    },
                    "models": {"gpt-5": {"name": "gpt-5"}},
                }
            },
            "mcp": {"desk": {"type": "remote", "url": os.environ["MCP_URL"], "headers": token}},
            "model": "crib/gpt-5",
            "small_model": "crib/gpt-5",
            "autoupdate": False,
            "share": "disabled",
        }
    )


def run(command: list[str], folder: Path) -> str:
    """What OpenCode prints in a home of its own."""
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    homes = {"XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **home, **homes, "OPENCODE_CONFIG": str(folder / "opencode.json")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


if __name__ == "__main__":
    opencode = installed()
    with tempfile.TemporaryDirectory(prefix="opencode-") as opened:
        home = Path(opened)
        (home / "opencode.json").write_text(configuration())
        assert "connected" in run([opencode, "mcp", "list"], home)
        print("mcp list: connected")
        assert "Hello from the provider." in run(
            [opencode, "run", "-m", "crib/gpt-5", "Say hello"], home
        )
        print("run: an answer")
