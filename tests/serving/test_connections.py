"""What strangers can take of a server: bounded headers, bodies, times and connections."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.patience import PATIENCE
from toolcrib.errors import UsageError
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.serving.connections import ConnectionTable, ListenerLimits
from toolcrib.serving.listener import Listener
from toolcrib.serving.origins import TrustedProxies

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

SHORT: dict[str, Any] = {"header_seconds": 0.5, "body_seconds": 0.5}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body and answer. A request to /owner is authenticated."""
    if scope["path"].startswith("/owner"):
        scope["toolcrib.principal"] = OWNER
    if scope["path"] == "/refused":
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})
        return
    size = 0
    while True:
        message: Any = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


class Client:
    """A connection over which anything can be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def rest(self) -> bytes:
        """Everything until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""

    async def answer(self) -> bytes:
        """The head of an answer; empty when the server closed the connection."""
        async with asyncio.timeout(PATIENCE):
            try:
                head = await self._reader.readuntil(b"\r\n\r\n")
                # The answers of the app are chunked and short.
                await self._reader.readuntil(b"0\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionResetError):
                return b""
            return head

    async def get(self, path: str) -> bytes:
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return await self.answer()


class Server:
    def __init__(self, listener: Listener) -> None:
        self._port = int(listener.url.rpartition(":")[2])
        self._clients: list[Client] = []

    async def connect(self, sent: bytes = b"") -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        client.writer.write(sent)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.writer.close()


@asynccontextmanager
async def serving(**limits: Any) -> AsyncGenerator[Server]:
    listener = Listener(
        app,
        "127.0.0.1",
        0,
        max_message=1_000_000,
        drain_seconds=1.0,
        limits=ListenerLimits(**limits),
    )
    async with listener:
        server = Server(listener)
        try:
            yield server
        finally:
            server.close()


async def test_a_silent_connection_is_closed_at_the_deadline() -> None:
    """Finding 7: who sends nothing is answered 408 and closed."""
    async with serving(**SHORT) as server:
        assert (await (await server.connect()).rest()).startswith(b"HTTP/1.1 408 ")


async def test_half_a_header_is_closed_at_the_deadline() -> None:
    """Finding 7: the deadline is for the whole head, not for the next byte of it."""
    async with serving(**SHORT) as server:
        client = await server.connect(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        rest = asyncio.ensure_future(client.rest())
        while not rest.done():
            client.writer.write(b"a")
            await asyncio.wait([rest], timeout=0.05)
        assert rest.result().startswith(b"HTTP/1.1 408 ")


async def test_empty_lines_do_not_keep_a_connection() -> None:
    """Line ends before a request are no request: they do not postpone any deadline."""
    async with serving(**SHORT) as server:
        client = await server.connect()
        assert (await client.get("/")).startswith(b"HTTP/1.1 200 ")
        rest = asyncio.ensure_future(client.rest())
        while not rest.done():
            client.writer.write(b"\r\n")
            await asyncio.wait([rest], timeout=0.05)
        assert rest.result().startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "head",
    [
        b"X-Large: " + b"a" * 70_000 + b"\r\n\r\n",
        b"".join(b"X-%d: a\r\n" % number for number in range(200)) + b"\r\n",
        b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1_000) for number in range(80)) + b"\r\n",
    ],
    ids=["value", "count", "sum"],
)
async def test_large_heads_are_refused(head: bytes) -> None:
    """Finding 7: headers are bounded in bytes and in number, with 431."""
    async with serving() as server:
        client = await server.connect(b"GET / HTTP/1.1\r\nHost: x\r\n" + head)
        assert (await client.rest()).startswith(b"HTTP/1.1 431 ")


async def test_a_long_path_is_refused() -> None:
    """The request line counts as well."""
    async with serving() as server:
        client = await server.connect(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 431 ")


async def sent_until_cut(writer: asyncio.StreamWriter, most: int) -> int:
    """How many bytes, `most` at most, a client can send before its connection is closed."""
    sent = 0
    with suppress(ConnectionError):
        while sent < most:
            writer.write(b"a" * 65_536)
            sent += 65_536
            await writer.drain()
    return sent


async def test_an_endless_header_is_cut_early() -> None:
    """Finding 7: one header value that never ends is read only up to the limit."""
    async with serving() as server:
        client = await server.connect(b"GET / HTTP/1.1\r\nX-Endless: ")
        assert await sent_until_cut(client.writer, 50_000_000) < 20_000_000


async def test_trailers_count_too() -> None:
    """Fields after a chunked body are bounded like those before it."""
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    async with serving() as server:
        client = await server.connect(head + b"".join(b"X-%d: a\r\n" % n for n in range(200)))
        rest = await client.rest()
        assert b"HTTP/1.1 200 " not in rest


@pytest.mark.parametrize(
    "start",
    [b"0\r\nX-Endless: ", b"1;extension="],
    ids=["trailer", "extension"],
)
async def test_what_follows_a_head_without_an_end_is_cut_early(start: bytes) -> None:
    """A trailer or an extension of a chunk that never ends is read only up to the limit."""
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving() as server:
        client = await server.connect(head + start)
        assert await sent_until_cut(client.writer, 50_000_000) < 20_000_000


@pytest.mark.parametrize(
    "head", [b"Content-Length: 1000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"]
)
async def test_a_slow_body_is_closed(head: bytes) -> None:
    """Finding 7: a body below the slowest rate ends with 408."""
    async with serving(**SHORT) as server:
        client = await server.connect(b"POST / HTTP/1.1\r\nHost: x\r\n" + head)
        rest = asyncio.ensure_future(client.rest())
        while not rest.done():
            client.writer.write(b"1\r\na\r\n")
            await asyncio.wait([rest], timeout=0.05)
        assert rest.result().startswith(b"HTTP/1.1 408 ")


async def test_a_slow_body_behind_another_request_is_closed() -> None:
    """A body has its deadline also when its head came in the bytes that ended another request."""
    first = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"
    async with serving(**SHORT) as server:
        second = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\na"
        client = await server.connect(first + second)
        assert b"HTTP/1.1 408 " in await client.rest()


async def test_a_large_body_in_one_piece_is_no_head() -> None:
    """Only the head counts, also when a body comes with it."""
    body = b"a" * 200_000
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    async with serving() as server:
        client = await server.connect(head + body)
        assert (await client.answer()).startswith(b"HTTP/1.1 200 ")


async def test_a_steady_body_is_taken() -> None:
    """A body that keeps its rate may take longer than the deadline alone would allow."""
    async with serving(body_seconds=0.5, body_bytes_per_second=10_000) as server:
        client = await server.connect(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n"
        )
        answer = asyncio.ensure_future(client.answer())
        for _ in range(20):
            client.writer.write(b"a" * 1_000)
            await asyncio.wait([answer], timeout=0.05)
        assert (await answer).startswith(b"HTTP/1.1 200 ")


async def test_the_rest_of_a_refused_body_is_not_waited_for() -> None:
    """Who is refused before the body was read does not keep the connection by sending it."""
    async with serving() as server:
        head = b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
        client = await server.connect(head)
        assert (await client.answer()).startswith(b"HTTP/1.1 401 ")
        sent, rest = 0, asyncio.ensure_future(client.rest())
        while not rest.done():
            client.writer.write(b"a" * 5_000)
            sent += 5_000
            await asyncio.wait([rest], timeout=0.05)
        assert sent < 1_000_000, "it was closed before the body had ended"


async def test_many_requests_at_once_are_refused() -> None:
    """A client may not have thousands of requests wait on one connection."""
    async with serving() as server:
        client = await server.connect(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 5_000)
        assert (await client.rest()).count(b"HTTP/1.1 200 ") < 100


@pytest.mark.parametrize(
    ("more", "status"),
    [(b"X-Large: " + b"a" * 70_000 + b"\r\n\r\n", b"431"), (b"X-Slow: ", b"408")],
    ids=["large", "slow"],
)
async def test_handshakes_of_sockets_are_bounded_too(more: bytes, status: bytes) -> None:
    """The head of a WebSocket's handshake is a head like any other."""
    head = (
        b"GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    )
    async with serving(**SHORT) as server:
        client = await server.connect(head + more)
        assert (await client.rest()).startswith(b"HTTP/1.1 " + status)


async def test_refusals_say_what_was_wrong() -> None:
    """The body of a refusal is JSON like that of every other one."""
    async with serving(**SHORT) as server:
        answer = await (await server.connect()).rest()
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


@contextmanager
def descriptors(limit: int) -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_strangers_do_not_keep_the_owner_out() -> None:
    """Finding 7: with fewer places than silent strangers, the owner's kept connection answers, and
    so do new ones: the strangers that have been there longest make room.
    """
    async with serving(connections=32, keep_alive_seconds=60) as server:
        kept = await server.connect()
        assert (await kept.get("/owner")).startswith(b"HTTP/1.1 200 ")
        strangers = [await server.connect() for _ in range(100)]
        assert (await kept.get("/owner")).startswith(b"HTTP/1.1 200 ")
        assert (await (await server.connect()).get("/owner")).startswith(b"HTTP/1.1 200 ")
        assert await strangers[0].rest() == b"", "the oldest stranger is gone"


async def test_authenticated_connections_are_not_cut_for_others() -> None:
    """When every place is taken by clients that are known, a new connection is told so."""
    async with serving(connections=8, keep_alive_seconds=60) as server:
        known: list[Client] = []
        for _ in range(8):
            known.append(await server.connect())
            assert (await known[-1].get("/owner")).startswith(b"HTTP/1.1 200 ")
        assert (await (await server.connect()).rest()).startswith(b"HTTP/1.1 503 ")
        for client in known:
            assert (await client.get("/owner")).startswith(b"HTTP/1.1 200 ")


def test_the_room_follows_the_limit_on_open_files() -> None:
    """Descriptors are left for everything else that the process opens."""
    with descriptors(256):
        assert ListenerLimits().capacity == 192
    assert ListenerLimits(connections=5).capacity == 5


class Connection:
    """A connection as the table sees it."""

    def __init__(self, unsent_bytes: int = 0, unfinished_bytes: int = 0) -> None:
        self.principal: Principal | None = None
        self.unsent_bytes = unsent_bytes
        self.unfinished_bytes = unfinished_bytes
        self.was_cut = False

    def enforce(self, now: float) -> None:
        pass

    def cut(self, reason: str) -> None:
        self.was_cut = True


@pytest.mark.parametrize(
    ("one", "other", "is_one_peer"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
    ],
)
def test_one_peer_has_a_share(one: str, other: str, is_one_peer: bool) -> None:
    """Connections are counted by address, of IPv6 by network: a host has a whole one."""
    table = ConnectionTable(ListenerLimits(connections=100, connections_per_peer=1))
    first, second = Connection(), Connection()
    assert table.admit(1, first, one, 0.0)
    first.principal = OWNER
    assert table.admit(2, second, other, 0.0) is not is_one_peer


def test_loopback_is_no_peer() -> None:
    """All local clients and proxies have one address; it is not limited as if it were one."""
    table = ConnectionTable(ListenerLimits(connections=100, connections_per_peer=1))
    for key, address in enumerate(("127.0.0.1", "127.0.0.1", "::1", "::ffff:127.0.0.1")):
        connection = Connection()
        connection.principal = OWNER
        assert table.admit(key, connection, address, 0.0)


@pytest.mark.parametrize(
    ("principal", "count", "is_room_made"),
    [
        (Principal("eve", frozenset({"caller"})), 10, True),
        (Principal("eve", frozenset({"caller"})), 6, True),
        (Principal("eve", frozenset({"caller"})), 5, False),
        (OWNER, 10, False),
    ],
)
def test_no_caller_keeps_others_out(principal: Principal, count: int, is_room_made: bool) -> None:
    """Who has more than half of a full table makes room, with the newest; an admin does not."""
    table = ConnectionTable(ListenerLimits(connections=10))
    own, others = [Connection() for _ in range(count)], [Connection() for _ in range(10 - count)]
    for key, connection in enumerate((*others, *own)):
        assert table.admit(key, connection, None, 0.0)
    for connection in own:
        connection.principal = principal
    for connection in others:
        connection.principal = OWNER
    assert table.admit(10, Connection(), None, 5.0) is is_room_made
    assert [each.was_cut for each in own] == [False] * (count - 1) + [is_room_made]
    assert not any(each.was_cut for each in others)
    assert len(table) == 10


def test_what_waits_to_be_read_is_bounded_for_all_together() -> None:
    """Finding 24: the clients with most to read are cut until the rest fits."""
    table = ConnectionTable(ListenerLimits(connections=100, unsent_bytes_in_all=100))
    connections = [Connection(unsent) for unsent in (10, 60, 50, 20)]
    for key, connection in enumerate(connections):
        assert table.admit(key, connection, None, 0.0)
    table.enforce(0.0)
    assert [connection.was_cut for connection in connections] == [False, True, False, False]


def test_unfinished_messages_are_bounded_for_all_together() -> None:
    """Many sockets that each keep a large message open fill no more memory than slow readers."""
    table = ConnectionTable(ListenerLimits(connections=100, unsent_bytes_in_all=100))
    connections = [Connection(0, size) for size in (30, 60, 40)]
    for key, connection in enumerate(connections):
        assert table.admit(key, connection, None, 0.0)
    table.enforce(0.0)
    assert [connection.was_cut for connection in connections] == [False, True, False]


def test_a_burst_of_clients_is_taken() -> None:
    """Many clients that connect at once are all taken; only those who stay silent make room."""
    table = ConnectionTable(ListenerLimits(connections=100))
    burst = [Connection() for _ in range(90)]
    for key, connection in enumerate(burst):
        assert table.admit(key, connection, None, 0.0)
    assert not any(connection.was_cut for connection in burst)
    assert table.admit(90, Connection(), None, 5.0)
    assert [connection.was_cut for connection in burst[:2]] == [True, False]


def test_limits_are_more_than_nothing() -> None:
    """A limit of zero would refuse everybody."""
    with pytest.raises(UsageError, match="header_bytes"):
        ListenerLimits(header_bytes=0)


def test_a_trusted_proxy_stands_for_many_clients() -> None:
    """The limit of one address would bound all its clients together; elsewhere it holds."""
    limits = ListenerLimits(connections_per_peer=2)
    proxies = TrustedProxies.of(["10.0.0.0/8"])

    def cut_of(address: str) -> int:
        table, idle = ConnectionTable(limits, proxies.trusts), [Connection() for _ in range(5)]
        for number, each in enumerate(idle):
            table.admit(number, each, address, float(number))
        return sum(each.was_cut for each in idle)

    assert cut_of("10.1.2.3") == 0
    assert cut_of("203.0.113.9") == 3
