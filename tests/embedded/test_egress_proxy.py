"""The egress proxy before real servers on loopback, whose names only these tests know."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.test_client_hello import client_hello
from tests.helpers.patience import PATIENCE
from tests.serving.certificate import Certificate
from toolcrib.egress import EgressPolicy
from toolcrib.embedded.domain_list import DomainList
from toolcrib.embedded.egress_proxy import MAX_CONNECTIONS, EgressProxy

GOOD = "good.example"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"


@dataclass(slots=True)
class Target:
    """A server on loopback: its port, and what it was sent on each connection."""

    port: int = 0
    received: list[bytes] = field(default_factory=list[bytes])
    answer: bytes = ANSWER
    ending: bytes = b"\r\n\r\n"
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a whole request, then remember all that comes until the other side leaves."""
        self.received.append(b"")
        at = len(self.received) - 1
        while piece := await reader.read(65_536):
            self.received[at] += piece
            if self.received[at].endswith(self.ending):
                writer.write(self.answer)
                if writer.can_write_eof():
                    writer.write_eof()
        writer.close()
        self.left.set()


@asynccontextmanager
async def target(**options: Any) -> AsyncGenerator[Target]:
    """A server that listens on loopback."""
    served = Target()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, **options)
    served.port = server.sockets[0].getsockname()[1]
    async with server:
        yield served


class Names:
    """A name server of which a test writes the answers, the last one for good."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers or ["127.0.0.1"])
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [answer]


@dataclass(frozen=True, slots=True)
class Client:
    """A client in a container: what it sends, and everything that comes back."""

    path: Path

    async def send(self, data: bytes) -> bytes:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_unix_connection(str(self.path))
            writer.write(data)
            answer = await reader.read()
            writer.close()
            return answer


@asynccontextmanager
async def proxied(
    names: Names, *allowed: str, domains: Sequence[str] = (GOOD, "*.good.example")
) -> AsyncGenerator[Client]:
    """A proxy that lets through to the domains; `allowed` may lie on this machine."""
    proxy = EgressProxy(DomainList.of(domains), EgressPolicy.of(allowed), names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proxy"
        await proxy.start(path)
        try:
            yield Client(path)
        finally:
            await proxy.close()


def status(answer: bytes) -> int:
    """The status of a response."""
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("host", [GOOD, "GOOD.Example", "good.example.", "a.good.example"])
async def test_a_plain_request_is_passed_on_alone(host: str) -> None:
    """The server sees one request with the host that was checked, and no header of the proxy."""
    async with target() as server, proxied(Names(), *_ports(server)) as client:
        answer = await client.send(
            f"GET http://{host}:{server.port}/a?b=1 HTTP/1.1\r\nHost: {host}:{server.port}\r\n"
            "Proxy-Authorization: Basic c2VjcmV0\r\nX-Hop: 1\r\nConnection: x-hop\r\n"
            "Accept: */*\r\n\r\n"
            "GET http://other.example/ HTTP/1.1\r\n\r\n".encode()
        )
    assert answer == ANSWER
    plain = host.lower().rstrip(".")
    assert server.received == [
        f"GET /a?b=1 HTTP/1.1\r\nhost: {plain}:{server.port}\r\naccept: */*\r\n"
        "connection: close\r\n\r\n".encode()
    ]


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_a_body_is_passed_on_and_nothing_after_it(is_chunked: bool) -> None:
    """What follows the body could be a request for another host of the same server."""
    smuggled = b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"
    body = b"4\r\nbody\r\n0\r\nX-Trailer: 1\r\n\r\n" if is_chunked else b"body"
    ending = b"\r\n0\r\n\r\n" if is_chunked else b"\r\n\r\nbody"
    framing = "Transfer-Encoding: chunked" if is_chunked else "Content-Length: 4"
    async with target() as server, proxied(Names(), *_ports(server)) as client:
        server.ending = ending
        head = f"POST http://{GOOD}:{server.port}/ HTTP/1.1\r\n{framing}\r\n\r\n".encode()
        reader, writer = await asyncio.open_unix_connection(str(client.path))
        writer.write(head + body + smuggled)
        assert await reader.readexactly(len(ANSWER)) == ANSWER
        writer.close()
        async with asyncio.timeout(PATIENCE):
            await server.left.wait()
    assert b"body" in server.received[0]
    assert b"other.example" not in server.received[0]
    assert b"x-trailer" not in server.received[0].lower()


@pytest.mark.parametrize(
    ("request_head", "code"),
    [
        ("GET http://other.example/ HTTP/1.1", 403),
        ("GET http://good.example.other.example/ HTTP/1.1", 403),
        ("GET http://127.0.0.1:PORT/ HTTP/1.1", 403),
        ("GET http://127.1:PORT/ HTTP/1.1", 403),
        ("GET http://2130706433:PORT/ HTTP/1.1", 403),
        ("GET http://[::1]:PORT/ HTTP/1.1", 400),
        ("GET http://localhost:PORT/ HTTP/1.1", 403),
        ("GET http://good.example:22/ HTTP/1.1", 403),
        ("GET http://good.example@other.example/ HTTP/1.1", 400),
        ("GET https://good.example/ HTTP/1.1", 400),
        ("GET /etc/passwd HTTP/1.1", 400),
        ("GET http://good.example:PORT/ HTTP/1.1\r\nHost: other.example", 400),
        ("GET http://good.example:PORT/ HTTP/1.1\r\nHost: good.example:PORT\r\nHost: b", 400),
        (
            "POST http://good.example:PORT/ HTTP/1.1\r\nContent-Length: 1\r\n"
            "Transfer-Encoding: chunked",
            400,
        ),
        ("POST http://good.example:PORT/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2", 400),
        ("POST http://good.example:PORT/ HTTP/1.1\r\nTransfer-Encoding: gzip", 400),
        ("GET http://good.example:PORT/ HTTP/1.1\r\nX: 1\r\n folded", 400),
        ("GET http://good.example:PORT/ HTTP/1.1\r\nX : 1", 400),
        ("CONNECT other.example:443 HTTP/1.1", 403),
        ("CONNECT 127.0.0.1:PORT HTTP/1.1", 403),
        ("CONNECT good.example HTTP/1.1", 400),
        ("CONNECT good.example:22 HTTP/1.1", 403),
        ("PRI * HTTP/2.0", 400),
        ("nonsense", 400),
    ],
)
async def test_a_request_that_is_refused(request_head: str, code: int) -> None:
    """No server hears of what the list, the port or the form of a request excludes."""
    async with target() as server:
        allowed = [*_ports(server), f"127.0.0.1:{server.port}", f"localhost:{server.port}"]
        async with proxied(Names(), *allowed) as client:
            head = request_head.replace("PORT", str(server.port))
            answer = await client.send(f"{head}\r\n\r\n".encode())
    assert status(answer) == code
    assert b"toolcrib egress proxy" in answer
    assert server.received == []


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1"]
)
@pytest.mark.parametrize("form", ["CONNECT good.example:443", "GET http://good.example/"])
async def test_an_allowed_name_that_leads_inside(address: str, form: str) -> None:
    """The name of an allowed domain does not open this machine or its network."""
    async with proxied(Names(address)) as client:
        answer = await client.send(f"{form} HTTP/1.1\r\n\r\n".encode())
    assert status(answer) in (403, 502)


async def test_a_name_that_changes_its_address() -> None:
    """An address is looked at again when it is connected to."""
    names = Names("93.184.215.14", "127.0.0.1")
    async with proxied(names) as client:
        hello = client_hello(GOOD)
        answer = await client.send(b"CONNECT good.example:443 HTTP/1.1\r\n\r\n" + hello)
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n", "nothing answers in the tunnel"
    assert names.asked == [GOOD, GOOD]


async def test_a_redirect_leads_nowhere_else() -> None:
    """A client gets the redirect, and its next request is checked like the first."""
    async with target() as server, proxied(Names(), *_ports(server)) as client:
        place = f"http://other.example:{server.port}/"
        server.answer = (
            f"HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n".encode()
        )
        answer = await client.send(f"GET http://{GOOD}:{server.port}/ HTTP/1.1\r\n\r\n".encode())
        assert status(answer) == 302
        assert status(await client.send(f"GET {place} HTTP/1.1\r\n\r\n".encode())) == 403
    assert len(server.received) == 1


async def test_a_tunnel_carries_tls_for_its_host(tmp_path: Path) -> None:
    """A client that asks for the host of its tunnel talks to the server alone."""
    files = Certificate.make(tmp_path, "localhost").files
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(files.certificate, files.key)
    client_side = ssl.create_default_context(cafile=str(files.certificate))
    async with target(ssl=server_side) as server:
        allowed = [f"localhost:{server.port}"]
        async with proxied(Names(), *allowed, domains=["localhost"]) as client:
            reader, writer = await asyncio.open_unix_connection(str(client.path))
            writer.write(f"CONNECT localhost:{server.port} HTTP/1.1\r\n\r\n".encode())
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
            await writer.start_tls(client_side, server_hostname="localhost")
            writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert await reader.readexactly(len(ANSWER)) == ANSWER
            writer.close()


@pytest.mark.parametrize(
    "first",
    [
        client_hello("other.example"),
        client_hello(None),
        b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
    ],
    ids=["other name", "no name", "http", "ssh"],
)
async def test_a_tunnel_without_tls_for_its_host_is_closed(first: bytes) -> None:
    """What is no client hello for the host of the tunnel does not reach the server."""
    async with target() as server, proxied(Names(), *_ports(server)) as client:
        head = f"CONNECT {GOOD}:{server.port} HTTP/1.1\r\n\r\n".encode()
        answer = await client.send(head + first)
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert server.received == []


async def test_connections_are_limited() -> None:
    """A container cannot hold more connections than it may."""
    async with proxied(Names()) as client:
        opened = [
            await asyncio.open_unix_connection(str(client.path)) for _ in range(MAX_CONNECTIONS)
        ]
        answer = await client.send(b"GET http://good.example/ HTTP/1.1\r\n\r\n")
        for _, writer in opened:
            writer.close()
    assert status(answer) == 503


def _ports(server: Target) -> list[str]:
    return [f"{name}:{server.port}" for name in (GOOD, "a.good.example")]
