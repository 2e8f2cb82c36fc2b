"""Who is loaded: where each server takes a call of the tool, and how its answer is read."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
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

MODERN = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
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
    """One request outside of the load, and the JSON that it brings."""
    request = Request(url, body, headers, method=verb or ("GET" if body is None else "POST"))
    with urlopen(request) as answer:
        return json.load(answer)


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


def mcp(
    name: str, host: Host, *, is_modern: bool, headers: dict[str, str] | None = None
) -> Contestant:
    """Streamable HTTP that answers with JSON: of 2025-11-25 without sessions, or of 2026-07-28,
    where every request says for itself who asks.
    """
    accepts = {**_JSON, "Accept": "application/json, text/event-stream", **(headers or {})}
    meta = b""
    if is_modern:
        accepts |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": NAME}
        meta = b',"_meta":' + json.dumps(_META).encode()

    def body(payload: bytes) -> bytes:
        params = b'{"name":"%b","arguments":%b%b}' % (NAME.encode(), payload, meta)
        return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params

    def reply(told: Any) -> Any:
        return json.loads(told["result"]["content"][0]["text"])

    era = MODERN if is_modern else "2025-11-25"
    return Contestant(f"{name}, {era}", host, "/mcp", body, reply, accepts)
