"""Real clients against the provider and the MCP server, each with packages of its own.

`python -m tests.clients.run [NAME ...]` installs what a client needs below `build/clients`, serves
`toolcrib provider` and `toolcrib serve`, and runs the scripts of this folder. A script gets the
addresses and the token in its environment, prints a line for each case, and fails with a traceback.
Status 0: every client passed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cli.command import MAIN
from tests.helpers.child_process import PYTHON_PATH, child_process

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
FOLDER: Final = ROOT / "build" / "clients"
SECRET: Final = "a-token-of-the-clients-0c51d2"
SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Client:
    """A script, and the packages that it runs with; without packages, those of this environment."""

    script: str
    packages: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name on the command line."""
        return Path(self.script).stem


CLIENTS: Final = (
    Client("openai_python.py"),
    Client("anthropic_python.py"),
    Client("pydantic_ai_agent.py", ("pydantic-ai-slim[openai,mcp]==2.66.0",)),
    Client("mcp_python.py"),
    Client("codex.py"),
    Client("opencode.py"),
    Client("openai_agents.py", ("openai-agents==0.24.0",)),
    Client("langchain_models.py", ("langchain-openai==1.7.3", "langchain-mcp-adapters==0.3.2")),
    Client("litellm_models.py", ("litellm==1.105.0",)),
    Client("llm_command.py", ("llm==0.36",)),
    Client("fastmcp_client.py", ("fastmcp==4.1.2",)),
    Client("openai_node.mjs", ("openai@7.55.0",)),
    Client(
        "vercel.mjs", ("ai@7.0.173", "@ai-sdk/openai@4.0.118", "@ai-sdk/mcp@2.0.99", "zod@4.6.7")
    ),
    Client("mcp_node.mjs", ("@modelcontextprotocol/sdk@1.32.2",)),
)


def command_of(client: Client) -> list[str]:
    """The command that runs a client, after its packages were installed."""
    script = str(HERE / client.script)
    if client.script.endswith(".mjs"):
        folder = FOLDER / client.name
        _install_npm(folder, client.packages)
        # Packages are looked for beside the script.
        copy = shutil.copy(script, folder)
        node = ROOT / ".node" / "node_modules" / ".bin" / "node"
        return [str(node), str(copy)]
    if not client.packages:
        return [sys.executable, "-m", f"tests.clients.{client.name}"]
    return [str(_environment(FOLDER / client.name, client.packages)), script]


def _environment(folder: Path, packages: Sequence[str]) -> Path:
    python = folder / "bin" / "python"
    installed = folder / "installed"
    wanted = "\n".join(packages)
    if not installed.exists() or installed.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-qq", *packages], check=True)
        installed.write_text(wanted)
    return python


def _install_npm(folder: Path, packages: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    installed = folder / "installed"
    wanted = "\n".join(packages)
    if not installed.exists() or installed.read_text() != wanted:
        npm = shutil.which("npm")
        assert npm is not None, "npm installs the JavaScript clients, and is not there"
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([npm, "install", "--prefix", str(folder), *options, *packages], check=True)
        installed.write_text(wanted)


@contextmanager
def served(folder: Path) -> Generator[dict[str, str]]:
    """The provider and the MCP server, and the environment that tells a client of them."""
    environment = {**os.environ, "TOOLCRIB_OWNER_TOKEN": SECRET, "PYTHONPATH": PYTHON_PATH}
    provider = [
        *(*MAIN, "provider", "--backend", f"scripted:{HERE / 'scenario.yaml'}", "--port", "0"),
        *("--data", str(folder / "state"), "--web", f"{HERE / 'site'}=https://shop.example"),
        *("--alias", "gpt-5=written", "--alias", "gpt-4o-mini=written"),
    ]
    server = [
        *(*MAIN, "serve", "--http", "--port", "0", "--store", str(folder / "crib.sqlite3")),
        *("--host-tools-module", "tests.clients.desk_tools"),
    ]
    with ExitStack() as stack:
        addresses: list[str] = []
        for command in (provider, server):
            process = stack.enter_context(child_process(command, env=environment))
            found = re.search(r"http://\S+", process.stderr.next_line("http://"))
            assert found is not None
            addresses.append(found[0].rstrip("/"))
        provider_url, server_url = addresses
        yield {
            **environment,
            "PROVIDER_URL": provider_url if provider_url.endswith("/v1") else f"{provider_url}/v1",
            "MCP_URL": f"{server_url.removesuffix('/v1')}/mcp",
            "TOKEN": SECRET,
            "CRIB_STORE": str(folder / "crib.sqlite3"),
        }


def played(client: Client, environment: dict[str, str]) -> bool:
    """Run a client, print what it says, and tell whether it passed."""
    began = time.monotonic()
    try:
        command = command_of(client)
        done = subprocess.run(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        is_passed, said = done.returncode == 0, done.stdout
    except (subprocess.SubprocessError, OSError) as error:
        is_passed, said = False, str(error)
    seconds = time.monotonic() - began
    print(f"{'passed' if is_passed else 'FAILED'}  {client.name}  ({seconds:.0f} s)", flush=True)
    shown = said.strip().splitlines()
    print("\n".join(f"    {line}" for line in (shown if is_passed else shown[-40:])), flush=True)
    return is_passed


def main() -> int:
    """Run the clients that are named, or all."""
    names = sys.argv[1:]
    known = {client.name for client in CLIENTS}
    if unknown := sorted(set(names) - known):
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        return 2
    chosen = [client for client in CLIENTS if not names or client.name in names]
    with tempfile.TemporaryDirectory(prefix="clients-") as folder, served(Path(folder)) as told:
        results = [played(client, told) for client in chosen]
    print(f"{sum(results)} of {len(results)} clients passed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
