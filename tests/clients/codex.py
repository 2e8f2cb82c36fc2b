"""Codex as a client of the embedded provider: an answer, and a call through a namespace.

Codex sends each MCP server as a namespace, runs the call itself and sends the result back. Run it:
`python -m tests.clients.codex`. Status 0: Codex got both answers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.cli.command import MAIN
from tests.helpers.child_process import PYTHON_PATH, child_process

PACKAGE: Final = "@openai/codex@0.166.0"
FOLDER: Final = Path(__file__).parents[2] / "build" / "clients" / "codex"
SECRET: Final = "a-token-of-the-clients-of-codex"
SCENARIO: Final = """\
name: written
turns:
  - when: <environment_context>
    steps:
      - say: Never asked.
  - when: Say hello
    steps:
      - say: Hello from the provider.
  - when: Add
    steps:
      - calls:
          - tool: mcp__desk__add
            as: sum
            arguments: {a: 20, b: 22}
      - say: "The desk says {{ sum.text }}"
"""
CONFIG: Final = """\
model = "gpt-5"
model_provider = "crib"

[model_providers.crib]
name = "crib"
base_url = {url}
wire_api = "responses"
env_key = "CRIB_KEY"
request_max_retries = 0
stream_max_retries = 0

[mcp_servers.desk]
command = {python}
args = ["-m", "tests.clients.desk_server"]
env = {{ PYTHONPATH = {path} }}
required = true
startup_timeout_sec = 60
"""


def installed_codex() -> str:
    """The command of Codex, installed from npm unless it is there."""
    command = FOLDER / "node_modules" / ".bin" / "codex"
    if not command.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm")
        assert npm is not None, "npm installs Codex, and is not there"
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([npm, "install", "--prefix", str(FOLDER), *options, PACKAGE], check=True)
    return str(command)


def ask(codex: str, home: Path, *arguments: str) -> list[dict[str, Any]]:
    """The items of one run of Codex."""
    work = home / "work"
    work.mkdir(exist_ok=True)
    command = [codex, "exec", "--skip-git-repo-check", "--json", "-s", "read-only", *arguments]
    environment = {**os.environ, "CODEX_HOME": str(home), "CRIB_KEY": SECRET}
    done = subprocess.run(
        command,
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, f"codex failed: {done.stdout}\n{done.stderr}"
    return [event["item"] for event in events if event["type"] == "item.completed"]


def check(codex: str, home: Path) -> None:
    """Both questions, with what Codex has to show for them, and a conversation that goes on."""
    hello = ask(codex, home, "Say hello")
    assert _said(hello) == "Hello from the provider.", hello
    summed = ask(codex, home, "Add 20 and 22")
    [call] = [item for item in summed if item["type"] == "mcp_tool_call"]
    assert (call["server"], call["tool"], call["status"]) == ("desk", "add", "completed"), call
    assert "42" in _said(summed), summed
    again = ask(codex, home, "resume", "--last", "Say hello")
    assert _said(again) == "Hello from the provider.", again


def _said(items: list[dict[str, Any]]) -> str:
    return "".join(item["text"] for item in items if item["type"] == "agent_message")


def main() -> None:
    """Serve the provider in a process of its own, and ask Codex."""
    codex = installed_codex()
    with tempfile.TemporaryDirectory(prefix="codex-") as folder:
        home = Path(folder)
        (home / "scenario.yaml").write_text(SCENARIO)
        command = [
            *(*MAIN, "provider"),
            *("--backend", f"scripted:{home / 'scenario.yaml'}", "--port", "0"),
            *("--alias", "gpt-5=written", "--data", str(home / "state")),
        ]
        environment = {**os.environ, "TOOLCRIB_OWNER_TOKEN": SECRET, "PYTHONPATH": PYTHON_PATH}
        with child_process(command, env=environment) as process:
            url = re.search(r"http://\S+", process.stderr.next_line("http://"))
            assert url is not None
            values = (url[0], sys.executable, PYTHON_PATH)
            shown = dict(zip(("url", "python", "path"), map(json.dumps, values), strict=True))
            (home / "config.toml").write_text(CONFIG.format(**shown))
            check(codex, home)
    print(f"{PACKAGE}: an answer, and a call through a namespace")


if __name__ == "__main__":
    main()
