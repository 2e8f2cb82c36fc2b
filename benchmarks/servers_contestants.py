"""Who is loaded: where each server takes a call of the tool, and how its answer is read."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from itertools import count
from typing import Any
from urllib.request import Request, urlopen

from servers_hosts import TOKEN
from servers_load import Host, Load, load
from workload import PAYLOADS, expected

CLIENTS = 32
PROBES = 3
NAME = "search"

_JSON = {"Content-Type": "application/json"}
OWNER = {**_JSON, "Authorization": f"Bearer {TOKEN}"}
_RECORDS_OF_A_CALL = 2
_ids: Iterator[int] = count(1)

LEGACY, MODERN = "2025-11-25", "2026-07-28"
_CLIENT = {"name": "bench", "version": "1"}
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class Round:
    """What one round cost and brought."""

    cpu_us: float
    """Of the server, per request."""
    rate: float
    """Requests per second, what was put off until after them included."""
    load: Load


def ask(url: str, headers: dict[str, str], body: bytes | None = None, verb: str = "") -> Any:
    """One request outside of the load, and the JSON that it brings, in an event or by itself."""
    return _answer(url, headers, body, verb)[1]


def _answer(
    url: str, headers: dict[str, str], body: bytes | None, verb: str = ""
) -> tuple[Message, Any]:
    request = Request(url, body, headers, method=verb or ("GET" if body is None else "POST"))
    with urlopen(request) as answer:
        text: str = answer.read().decode()
        if answer.headers.get_content_type() == "text/event-stream":
            [text] = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        return answer.headers, json.loads(text) if text else None


class Contestant:
    """One route. `body` wraps the arguments, `reply` finds what the tool returned."""

    def __init__(
        self,
        name: str,
        host: Host,
        path: str,
        body: Callable[[bytes], bytes],
        reply: Callable[[Any], Any],
        headers: dict[str, str] = _JSON,
    ) -> None:
        self.name = name
        self.host = host
        self.path = path
        self.body = body
        self.reply = reply
        self.headers = headers
        self.rounds: list[Round] = []

    def measure(self, seconds: int) -> None:
        """One round, after a few calls that show that the tool is really run."""
        self.begin()
        self._probe()
        before = self.host.cpu_seconds()
        requests = [(self.path, self.body(payload)) for payload in PAYLOADS]
        done = load(self.host.url, self.headers, requests, clients=CLIENTS, seconds=seconds)
        began = time.perf_counter()
        self.settle(done)
        took = done.seconds + time.perf_counter() - began
        cpu = self.host.cpu_seconds() - before
        self.rounds.append(Round(cpu / done.requests * 1e6, done.requests / took, done))

    def begin(self) -> None:
        """Get ready for a round."""

    def settle(self, done: Load) -> None:
        """Do what was put off; it counts."""

    def _probe(self) -> None:
        for payload in PAYLOADS[:PROBES]:
            reply = self.reply(ask(self.host.url + self.path, self.headers, self.body(payload)))
            if reply != expected(payload):
                raise SystemExit(f"{self.name} answered {reply!r} to {payload!r}")


class OurRest(Contestant):
    """Our REST route, in a new session each round. Its whole ledger is made to exist, encoded and
    chained, before the clock stops.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(
            "toolcrib REST, ledger read",
            host,
            "",
            lambda payload: b'{"arguments":%b}' % payload,
            lambda answer: answer["value"],
            OWNER,
        )
        self._sessions = f"{host.url}/v1/sessions"
        self._session = ""

    def begin(self) -> None:
        if self._session:
            ask(f"{self._sessions}/{self._session}", self.headers, verb="DELETE")
        self._session = ask(self._sessions, self.headers, b"{}")["session_id"]
        self.path = f"/v1/sessions/{self._session}/tools/{NAME}/call"

    def settle(self, done: Load) -> None:
        told = ask(f"{self._sessions}/{self._session}", self.headers)
        calls = (told["last_seq"] - 1) // _RECORDS_OF_A_CALL - PROBES
        # wrk leaves when its time is up, and does not count what it no longer waits for.
        if not done.requests <= calls <= done.requests + CLIENTS:
            raise SystemExit(f"{done.requests} calls were answered and {calls} were written down")


def echo(host: Host) -> Contestant:
    """What the same server software does when there is nothing to do."""

    def as_reply(told: Any) -> Any:
        return expected(json.dumps(told).encode())

    return Contestant("Starlette echo", host, "/echo", lambda payload: payload, as_reply)


class Mcp(Contestant):
    """Streamable HTTP of the protocol of 2025-11-25 that answers without sessions."""

    era = LEGACY

    def __init__(self, name: str, host: Host, headers: dict[str, str] = _JSON) -> None:
        accepts = {**headers, "Accept": "application/json, text/event-stream"}
        super().__init__(f"{name}, {self.era}", host, "/mcp", self._body, _content, accepts)

    def _body(self, payload: bytes) -> bytes:
        params = b'"name":"%b","arguments":%b%b' % (NAME.encode(), payload, self._rest())
        return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%b}}' % (
            next(_ids),
            params,
        )

    def _rest(self) -> bytes:
        return b""


class ModernMcp(Mcp):
    """The protocol of 2026-07-28, where every request says for itself who asks."""

    era = MODERN

    def begin(self) -> None:
        named = {"Mcp-Method": "tools/call", "Mcp-Name": NAME}
        self.headers |= {"MCP-Protocol-Version": MODERN, **named}

    def _rest(self) -> bytes:
        return b',"_meta":' + json.dumps(_META).encode()


class SessionMcp(Mcp):
    """The protocol of 2025-11-25 with a session, as clients of it use it: answers are streams."""

    era = f"{LEGACY} with a session"

    def begin(self) -> None:
        url = self.host.url + self.path
        if "Mcp-Session-Id" not in self.headers:
            params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
            asked = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            told, _ = _answer(url, self.headers, json.dumps(asked).encode())
            session = {"Mcp-Session-Id": told["mcp-session-id"]}
            self.headers |= {**session, "MCP-Protocol-Version": LEGACY}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            ask(url, self.headers, json.dumps(ready).encode())


def _content(told: Any) -> Any:
    return json.loads(told["result"]["content"][0]["text"])
