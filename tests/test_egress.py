"""Egress: addresses that a caller chooses lead to public places or nowhere."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

import httpx2
import pytest

from toolcrib.egress import EgressPolicy, Resolver, egress_client
from toolcrib.errors import EgressRefused, UsageError

SECRET = "AKIA-SECRET-BODY"
DEFAULT = EgressPolicy()


class _Service(ThreadingHTTPServer):
    """A service of the internal network, which must not be read."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Inside)
        self.seen: list[str] = []

    @property
    def port(self) -> int:
        return self.server_address[1]


class _Inside(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Service  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self.server.seen.append(f"{self.headers['Host']} {self.path}")
        if self.path.startswith("/to/"):
            self.send_response(307)
            self.send_header("location", f"http://{self.path.removeprefix('/to/')}")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        body = SECRET.encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@asynccontextmanager
async def inside() -> AsyncGenerator[_Service]:
    server = _Service()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        thread.join()


def answers(*addresses: str) -> Resolver:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolver


async def refusal(url: str, resolver: Resolver | None = None) -> str:
    """The message of the refusal."""
    async with egress_client(DEFAULT, resolver=resolver, follow_redirects=True) as client:
        # Some spellings are no URL for the client's library.
        with pytest.raises((EgressRefused, httpx2.InvalidURL)) as refused:
            await client.get(url)
    return str(refused.value)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "0.0.0.0",
        "0",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "127.0.0.1.",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "user@127.0.0.1",
        "example.org@127.0.0.1",
    ],
)
async def test_no_spelling_of_loopback_is_connected_to(host: str) -> None:
    """Finding 6: every spelling of this machine's address is refused, nothing is sent."""
    async with inside() as service:
        message = await refusal(f"http://{host}:{service.port}/latest")
        assert service.seen == []
    assert SECRET not in message


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "172.16.3.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "0.1.2.3",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::1",
        "2002:a00:1::",
        "2002:7f00:1::1",
        "2002:a9fe:a9fe::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "2606:4700::5efe:10.0.0.1",
        "2606:4700::200:5efe:127.0.0.1",
        "100::1",
    ],
)
async def test_no_internal_address_is_allowed(address: str) -> None:
    """Private, link-local, shared, metadata, multicast, reserved and test addresses, and the IPv6
    forms of them, are refused as the answer for a name, also beside a public one.
    """
    for resolver in (answers(address), answers("1.1.1.1", address), answers(address, "1.1.1.1")):
        message = await refusal("https://tools.example/mcp", resolver=resolver)
        assert "tools.example" in message
        assert address not in message


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "64:ff9b::1.1.1.1"])
def test_public_addresses_are_allowed(address: str) -> None:
    """The rule refuses nothing that is public."""
    assert DEFAULT.allows_address(ip_address(address))


async def test_the_address_that_was_checked_is_connected_to() -> None:
    """A name that answers with a public address first and with loopback later (DNS rebinding) is
    looked up once; the connection goes to an address of that one answer.
    """
    lookups: list[str] = []
    policy = EgressPolicy.of(["127.0.0.0/8"])
    async with inside() as service:

        async def rebinding(host: str, port: int) -> Sequence[str]:
            lookups.append(host)
            return ["127.0.0.1"] if len(lookups) == 1 else ["10.0.0.1"]

        async with egress_client(policy, resolver=rebinding) as client:
            url = f"http://tools.example:{service.port}/mcp"
            first = await client.get(url)
            again = await client.get(url)
            assert (first.text, again.text) == (SECRET, SECRET)
    assert lookups == ["tools.example"], "a kept connection is not looked up again"
    assert service.seen == [f"tools.example:{service.port} /mcp"] * 2, "Host stays the name"


async def test_redirects_are_checked_again() -> None:
    """A redirect from an allowed address to a forbidden one is not followed."""
    async with inside() as service, inside() as other:
        policy = EgressPolicy.of([f"127.0.0.1:{service.port}"])
        async with egress_client(policy, follow_redirects=True) as client:
            url = f"http://127.0.0.1:{service.port}/to/127.0.0.1:{other.port}/latest"
            with pytest.raises(EgressRefused, match=r"127\.0\.0\.1"):
                await client.get(url)
        assert (len(service.seen), other.seen) == (1, [])


async def test_environment_proxies_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would look names up by itself, after our check."""
    async with inside() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await refusal("http://tools.example/", resolver=answers("10.0.0.1"))
        assert proxy.seen == []


@pytest.mark.parametrize("option", ["transport", "mounts", "proxy", "trust_env"])
def test_no_option_goes_around_the_check(option: str) -> None:
    """A client whose own transport or proxy would skip the check is a mistake of the program."""
    with pytest.raises(UsageError, match=option):
        egress_client(DEFAULT, **{option: None})


async def test_a_missing_name_and_an_internal_one_answer_alike() -> None:
    """The message does not tell which internal names exist."""

    async def missing(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    url = "http://db.internal/"
    assert await refusal(url, resolver=missing) == await refusal(url, resolver=answers("10.0.0.5"))


@pytest.mark.parametrize("port", [22, 25, 110, 445, 993])
async def test_ports_of_other_services_are_refused(port: int) -> None:
    """A public host is reached on the ports of the web and above 1023 only."""
    message = await refusal(f"http://mail.example:{port}/", resolver=answers("1.1.1.1"))
    assert str(port) in message


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "http://user:password@example.org/",
        "http://[fe80::1%25eth0]/",
    ],
)
async def test_other_forms_of_addresses_are_refused(url: str) -> None:
    """Other schemes, credentials in the URL and zones of this machine are refused, unresolved."""
    with pytest.raises(EgressRefused) as refused:
        await DEFAULT.check_url(url, answers("1.1.1.1"))
    assert "password" not in str(refused.value).replace("a user or password", "")


async def test_an_own_public_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A public address of this very machine is as internal as loopback: services listen on it."""

    class _Socket(socket.socket):
        def bind(self, address: Any, /) -> None:
            if address[0] != "9.9.9.9":
                raise OSError("cannot assign requested address")

    monkeypatch.setattr("toolcrib.egress.socket.socket", _Socket)
    assert not DEFAULT.allows_address(ip_address("9.9.9.9"))
    assert DEFAULT.allows_address(ip_address("1.1.1.1"))


@pytest.mark.parametrize(
    ("entry", "host", "port", "is_allowed"),
    [
        ("localhost", "localhost", 80, True),
        ("localhost", "LOCALHOST.", 8080, True),
        ("localhost:8080", "localhost", 8080, True),
        ("localhost:8080", "localhost", 8081, False),
        ("[::1]:80", "::1", 80, True),
        ("[::1]", "::1", 81, True),
        ("::1", "0:0:0:0:0:0:0:1", 81, True),
        ("searx.internal", "evil.searx.internal", 80, False),
        ("10.0.0.5", "10.0.0.5", 80, True),
    ],
)
def test_what_the_host_allows(entry: str, host: str, port: int, is_allowed: bool) -> None:
    """A host is allowed by name, with or without a port, and by no part of its name."""
    assert EgressPolicy.of([entry]).allows_host(host, port) is is_allowed


@pytest.mark.parametrize("entry", ["", "*", "*.example.org", "10.0.0.0/99", "a b", "host:99999"])
def test_an_unclear_permission_is_an_error(entry: str) -> None:
    """What cannot be read allows nothing; it is refused where it is written."""
    with pytest.raises(UsageError, match="cannot allow egress"):
        EgressPolicy.of([entry])


async def test_an_allowed_host_is_fetched() -> None:
    """The host's word counts: an allowed host, and an allowed network, are connected to."""
    async with inside() as service:
        for entry in (f"localhost:{service.port}", "127.0.0.0/8"):
            policy = EgressPolicy.of([entry])
            resolver = answers("127.0.0.1")
            async with egress_client(policy, resolver=resolver) as client:
                answer = await client.get(f"http://localhost:{service.port}/latest")
            assert answer.text == SECRET


async def test_the_next_address_is_tried_and_the_message_names_none() -> None:
    """A name with several addresses works when one of them answers; a closed port does not tell
    which addresses there are.
    """
    async with inside() as service:
        policy = EgressPolicy.of(["127.0.0.0/8"])
        url = f"http://tools.example:{service.port}/"
        async with egress_client(policy, resolver=answers("127.0.0.9", "127.0.0.1")) as client:
            assert (await client.get(url)).text == SECRET
    async with egress_client(policy, resolver=answers("127.0.0.9")) as client:
        with pytest.raises(httpx2.ConnectError) as failed:
            await client.get(url)
    assert "127.0.0.9" not in str(failed.value)


async def test_tls_names_the_host_of_the_url() -> None:
    """The server's certificate is checked for the name in the URL, not for the address."""
    names: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def note(_: ssl.SSLObject, name: str, __: ssl.SSLContext) -> int:
        names.append(name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    context.sni_callback = note  # type: ignore[assignment]

    def connected(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        raise AssertionError("the handshake was refused")

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        policy = EgressPolicy.of(["127.0.0.1/32"])
        async with egress_client(policy, resolver=answers("127.0.0.1")) as client:
            with pytest.raises(httpx2.ConnectError):
                await client.get(f"https://tools.example:{port}/")
    assert names == ["tools.example"]
