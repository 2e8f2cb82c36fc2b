"""A real server with the console, in a process of its own, and the people who use it.

Its agent is the embedded provider with a written scenario. `TOOLS`, `POLICY` and `SCENARIO` are
those of a small workshop; a test that needs others gives its own to `crib_in`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import httpx2

from tests.helpers.patience import PATIENCE
from toolcrib.client import Client
from toolcrib.serving.tokens import TokenFile

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.browser_page import BrowserPages, Theme

Person = Literal["owner", "ada", "carol", "bob", "dora"]
"""The owner of the server; an admin, an approver, a caller and an auditor."""

ROLES: Final[dict[Person, Sequence[Any]]] = {
    "ada": ["admin"],
    "carol": ["approver"],
    "bob": ["caller"],
    "dora": ["auditor"],
}
OWNERS: Final = "owner-token-0123456789-0123456789"

WORKSHOP: Final = '''
"""The tools of a small workshop."""

import asyncio
from typing import Literal

from toolcrib import tool

Part = Literal["bolts", "nuts", "saws"]
STOCK: dict[str, int] = {"bolts": 120, "nuts": 80, "saws": 2}


@tool(is_read_only=True)
def stock_level(part: Part) -> int:
    """Say how many of a part are left."""
    return STOCK[part]


@tool
def order_parts(part: Part, count: int, note: str = "") -> str:
    """Order more of a part.

    Args:
        part: What to order.
        count: How many.
        note: For the supplier.
    """
    STOCK[part] += count
    return f"{count} more of {part} are ordered; there are {STOCK[part]} now."


@tool
def write_file(path: str, content: str) -> str:
    """Write a file of the workshop.

    Args:
        path: Where.
        content: All of it.
    """
    return f"{len(content)} characters are in {path}."


@tool
def run_python(code: str) -> str:
    """Run a program.

    Args:
        code: Python.
    """
    return "It ran."


@tool(is_read_only=True)
def broken() -> str:
    """Fail, as the till does on Mondays."""
    raise RuntimeError("the till is jammed")


@tool(is_read_only=True)
async def slow(seconds: float = 3600) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "At last."

'''

HOSTILE_TOOLS: Final = '''

HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\\n"
    "![picture](https://evil.example/pixel.png) [harmless](https://evil.example/login)\\n"
    "[run](javascript:window.hacked=1) <a href='//evil.example'>link</a>\\n"
    "\\x1b[2J\\x1b]0;owned\\x07\\x1b[31mred\\x1b[0m \\u202egnp.exe\\u202c \\u200bhidden\\x9b31m\\n"
)


@tool(is_read_only=True)
def hostile() -> str:
    """Answer with all that a page must not obey."""
    return HOSTILE


@tool
def hostile_order(text: str) -> str:
    """Ask for approval with a text that a page must not obey.

    Args:
        text: The text.
    """
    return text
'''

TOOLS: Final = WORKSHOP + HOSTILE_TOOLS

POLICY: Final = """\
# Which calls run, which a person is asked about, and which are refused.
version: 1
unmatched: risk
deadline: 1h
rules:
  - id: small orders
    allow: order_parts
    arguments:
      /count: {max: 10}
  - id: absurd orders
    deny: order_parts
    arguments:
      /count: {min: 1000}
    reason: Nobody needs that many.
  - id: files
    ask: write_file
    deadline: 10m
    reason: Somebody looks at every file.
"""

SCENARIO: Final = """\
name: clerk
turns:
  - when: how many
    steps:
      - calls:
          - {tool: stock_level, arguments: {part: saws}, as: saws}
          - {tool: stock_level, arguments: {part: bolts}, as: bolts}
      - say: "There are {{ saws.text }} saws and {{ bolts.text }} bolts."
  - when: order
    steps:
      - say: I will order fifty saws.
        calls: [{tool: order_parts, arguments: {part: saws, count: 50}, as: ordered}]
      - say: "{{ ordered.text }}"
  - when: hostile
    steps:
      - calls: [{tool: hostile, arguments: {}, as: text}]
      - say: "{{ text.text }}"
  - when: fail
    steps:
      - calls: [{tool: broken, arguments: {}, as: broken}]
      - say: It did not work.
  - steps:
      - say: "I can count, and order parts: ask **how many** there are."
"""

PROJECT: Final = """\
tools:
  modules: [crib_tools]
model:
  adapter: crib_model:adapter
policy: policy.yaml
store: crib.sqlite3
serve:
  tokens: tokens.json
"""

MODEL: Final = """\
from pathlib import Path

from toolcrib.embedded import scripted_model

adapter = scripted_model(Path(__file__).with_name("scenario.yaml"))
"""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclass
class Crib:
    """The server, its address and the tokens of its people. It can be killed and restarted."""

    folder: Path
    options: Sequence[str] = ()
    tokens: dict[Person, str] = field(default_factory=dict[Person, str])
    port: int = field(default_factory=free_port)
    pages: BrowserPages | None = None
    """Where pages open; the fixture of each test sets it."""
    _process: subprocess.Popen[str] | None = None
    _lines: list[str] = field(default_factory=list[str])
    _clients: list[Client] = field(default_factory=list[Client])

    @property
    def url(self) -> str:
        """Where it listens, also after a restart."""
        return f"http://127.0.0.1:{self.port}"

    def token(self, person: Person) -> str:
        """The bearer token of a person."""
        return OWNERS if person == "owner" else self.tokens[person]

    def operations(self, person: Person = "owner") -> Client:
        """A client of the API, to set something up or to look at what has become of it."""
        client = Client(self.url, self.token(person), reconnect_seconds=1)
        self._clients.append(client)
        return client

    def page(
        self,
        person: Person | None,
        path: str = "/",
        *,
        size: tuple[int, int] = (1440, 900),
        theme: Theme = "light",
        allow: Sequence[str] = (),
    ) -> Page:
        """A page in a browser profile of its own, signed in as a person; None signs nobody in.

        Console errors and warnings, policy violations and requests to another origin fail the
        test, but for those that a pattern of `allow` matches.
        """
        assert self.pages is not None, "pages open within a test that uses the fixture `crib`"
        return self.pages.open(self, person, path, size=size, theme=theme, allow=allow)

    def request(
        self, person: Person, method: str, path: str, json: object = None
    ) -> httpx2.Response:
        """A request that passes the page by."""
        headers = {"Authorization": f"Bearer {self.token(person)}"}
        return httpx2.request(
            method, f"{self.url}{path}", headers=headers, json=json, timeout=PATIENCE
        )

    def start(self) -> None:
        """Start the process and wait until it answers."""
        command = ["toolcrib", "serve", "--port", str(self.port), *self.options]
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env={
                **_environment(),
                "TOOLCRIB_OWNER_TOKEN": OWNERS,
                "XDG_STATE_HOME": str(self.folder / "state"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        is_serving = threading.Event()
        reader = threading.Thread(target=self._read, args=(self._process, is_serving), daemon=True)
        reader.start()
        assert is_serving.wait(PATIENCE), f"it does not answer: {self.log()}"
        assert self._process.poll() is None, f"it ended: {self.log()}"

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process as an operator does."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill it, and start it again at the same address with the same store."""
        self.kill()
        self.start()

    def log(self) -> str:
        """What the process has written."""
        return "".join(self._lines)

    def close(self) -> None:
        """End the process, and the clients."""
        for client in self._clients:
            client.close()
        self.kill()

    def _read(self, process: subprocess.Popen[str], is_serving: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self._lines.append(line)
                if "serving on" in line:
                    is_serving.set()
        # Ended before it served: whoever waits looks at the process.
        is_serving.set()

    def _end(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)


def _environment() -> dict[str, str]:
    """No server, no token and no folder of whoever runs the tests."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TOOLCRIB_") and name != "FORCE_COLOR"
    } | {"NO_COLOR": "1"}


@contextmanager
def crib_in(
    folder: Path,
    *,
    tools: str = TOOLS,
    policy: str = POLICY,
    scenario: str = SCENARIO,
    project: str = PROJECT,
    options: Sequence[str] = (),
) -> Generator[Crib]:
    """A server in an empty folder. `project` is its toolcrib.yaml, `options` are more flags."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("crib_tools.py", tools),
        ("crib_model.py", MODEL),
        ("policy.yaml", policy),
        ("scenario.yaml", scenario),
        ("toolcrib.yaml", project),
    ):
        (folder / name).write_text(text, "utf-8")
    file = TokenFile(folder / "tokens.json")
    tokens: dict[Person, str] = {
        person: file.create(person, roles).token for person, roles in ROLES.items()
    }
    crib = Crib(folder, options, tokens)
    try:
        crib.start()
        yield crib
    finally:
        crib.close()
