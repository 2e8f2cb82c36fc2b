"""ContextForge (`mcp-contextforge-gateway`) with one server registered, from an environment of its
own: it pins another `mcp` than the other peers. `make .venv-forge/.installed` makes it.
"""

import json
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from servers_load import Host

FORGE = Path(__file__).parents[1] / ".venv-forge" / "bin"
PATIENCE = 120.0
TOOL = "bench-search"


@dataclass(frozen=True, slots=True)
class Forge:
    """Where it is, and the token that it takes."""

    host: Host
    token: str


def is_installed() -> bool:
    """Whether the environment was made."""
    return (FORGE / "mcpgateway").exists()


@contextmanager
def forge(upstream: str) -> Generator[Forge]:
    """Start it with a fresh database, and register the server."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        env = _environment(folder)
        command = ["mcpgateway.main:app", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(
            [FORGE / "mcpgateway", *command],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        try:
            url, token = f"http://127.0.0.1:{port}", _token(env)
            _wait(f"{url}/health", process)
            server = _register(url, token, upstream)
            yield Forge(Host(f"{url}/servers/{server}/mcp", process.pid), token)
        finally:
            process.terminate()
            process.wait()


def _environment(folder: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "DATABASE_URL": f"sqlite:///{folder}/forge.db",
        "CACHE_TYPE": "memory",
        "LOG_LEVEL": "ERROR",
        "MCPGATEWAY_UI_ENABLED": "false",
        "JWT_SECRET_KEY": secrets.token_hex(32),
        "AUTH_ENCRYPTION_SECRET": secrets.token_urlsafe(40),
        "PLATFORM_ADMIN_PASSWORD": f"{secrets.token_urlsafe(24)}A1!",
        "SSRF_ALLOW_LOCALHOST": "true",
        "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
    }


def _token(env: dict[str, str]) -> str:
    arguments = ["--username", "admin@example.com", "--exp", "600", "--admin"]
    command = [FORGE / "python", "-m", "mcpgateway.utils.create_jwt_token", *arguments]
    made = subprocess.run(
        [*command, "--secret", env["JWT_SECRET_KEY"]],
        env=env,
        cwd=env["HOME"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return made.stdout.split()[-1]


def _wait(url: str, process: subprocess.Popen[Any]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            urlopen(url).close()
        except (URLError, ConnectionError):
            time.sleep(0.2)
        else:
            return
    raise SystemExit("ContextForge did not start")


def _register(url: str, token: str, upstream: str) -> str:
    def ask(path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with urlopen(Request(f"{url}{path}", data, headers)) as answer:
            return json.loads(answer.read())

    ask("/gateways", {"name": "bench", "url": upstream, "transport": "STREAMABLEHTTP"})
    tools = [each["id"] for each in ask("/tools")]
    made = ask("/servers", {"server": {"name": "bench", "associated_tools": tools}})
    return made["id"]
