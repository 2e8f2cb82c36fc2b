"""Egress: which addresses may be connected to when a caller or a model chooses the address.

A caller that names an address must not reach this machine, its network or the metadata service of
a cloud through us. `EgressPolicy` decides about addresses; `egress_client` is an HTTP client that
connects to exactly the addresses that were decided about. What the host application configures is
its own choice and does not come through here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, cast

from toolcrib.errors import EgressRefused, UsageError

if TYPE_CHECKING:
    from collections.abc import Generator

    import httpcore2
    import httpx2

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, as text. Raises `OSError` when it has none."""

_WEB_PORTS: Final = (80, 443)
_FIRST_FREE_PORT: Final = 1024
_LOOKUP_THREADS: Final = 4
_LOOKUP_SECONDS: Final = 10.0
_CONNECT_SECONDS: Final = 30.0

_NEVER_PUBLIC: Final = tuple(
    ip_network(network)
    for network in (
        # Addresses that count as global, or did in older versions of `ipaddress`, and lead inside.
        "168.63.129.16/32",  # the metadata service of Azure
        "192.0.0.0/24",
        "192.88.99.0/24",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",
    )
)
_NAT64: Final = ip_network("64:ff9b::/96")
_COMPATIBLE: Final = ip_network("::/96")
_LOW_32_BITS: Final = 0xFFFF_FFFF
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Where a caller or a model may make us connect to: public addresses, and what is allowed.

    `allowed_hosts` are names or addresses, each with or without a port (`localhost:8080`); whatever
    an allowed name resolves to is allowed. `allowed_networks` are allowed by address.
    """

    allowed_hosts: frozenset[str] = frozenset()
    allowed_networks: tuple[IpNetwork, ...] = ()

    @classmethod
    def of(cls, allowed: Iterable[str]) -> Self:
        """The policy that also allows these: each a host, `host:port` or a network (`10.0.0.0/8`).
        Raises `UsageError` for one that is none of them.
        """
        hosts: set[str] = set()
        networks: list[IpNetwork] = []
        for entry in allowed:
            if "/" in entry:
                networks.append(_network(entry))
            else:
                hosts.add(_allowed_host(entry))
        return cls(frozenset(hosts), tuple(networks))

    def allows_host(self, host: str, port: int) -> bool:
        """Whether a host is allowed by name, whatever its addresses."""
        name = _plain_name(host)
        return name in self.allowed_hosts or f"{name}:{port}" in self.allowed_hosts

    def allows_address(self, address: IpAddress) -> bool:
        """Whether an address is allowed: in an allowed network, or public and not our own."""
        plain = _unwrapped(address)
        if any(plain in network or address in network for network in self.allowed_networks):
            return True
        return _is_public(plain) and not _is_own(plain)

    async def addresses(
        self, host: str, port: int, resolver: Resolver | None = None
    ) -> tuple[str, ...]:
        """The addresses of a host that may be connected to. Raises `EgressRefused` when one of them
        may not: whoever answers for the name could choose which one we get.
        """
        is_allowed = self.allows_host(host, port)
        if not is_allowed and port < _FIRST_FREE_PORT and port not in _WEB_PORTS:
            raise EgressRefused(host, f"port {port} is not one of the web", f"{host}:{port}")
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                addresses = await (resolver or resolve)(host, port)
            parsed = [_parsed(address) for address in addresses]
        except (OSError, UnicodeError, ValueError):
            addresses, parsed = (), []
        # One message for a name that leads inside and for a name that does not exist: the
        # difference would tell a caller which internal names there are.
        if not parsed or not (is_allowed or all(map(self.allows_address, parsed))):
            raise EgressRefused(host, "it has no address that may be connected to", host)
        return tuple(addresses)

    async def check_url(self, url: str, resolver: Resolver | None = None) -> None:
        """Raise `EgressRefused` unless the address of a URL may be connected to now. A check before
        the fact, for a clear message; only `egress_client` holds it for the connection itself.
        """
        import httpx2

        try:
            parts = httpx2.URL(url)
        except (httpx2.InvalidURL, TypeError, ValueError):
            raise EgressRefused("", "the address is no URL", None) from None
        _check_form(parts)
        await self.addresses(parts.host, _port_of(parts), resolver)


def egress_client(
    policy: EgressPolicy,
    *,
    resolver: Resolver | None = None,
    ssl_context: Any = None,
    **options: Any,
) -> httpx2.AsyncClient:
    """An HTTP client that connects only to what `policy` allows, also when it follows a redirect.
    The name is looked up once per connection, and the addresses checked are those connected to;
    `Host` and the name of the certificate stay those of the URL. Proxies of the environment are
    ignored, because a proxy would look the name up again. A refusal is `EgressRefused`.
    """
    import httpx2

    # A transport or proxy among the options would go around the check.
    if refused := {"transport", "mounts", "proxy", "trust_env"} & options.keys():
        raise UsageError(f"egress_client takes no {', '.join(sorted(refused))}")
    limits = cast("httpx2.Limits", options.pop("limits", None) or httpx2.Limits())
    transport = _transport(_backend(policy, resolver), limits, ssl_context)
    return httpx2.AsyncClient(transport=transport, trust_env=False, **options)


def _transport(
    backend: httpcore2.AsyncNetworkBackend, limits: httpx2.Limits, ssl_context: Any
) -> httpx2.AsyncBaseTransport:
    import httpcore2
    import httpx2

    pool = httpcore2.AsyncConnectionPool(
        ssl_context=ssl_context or httpx2.create_ssl_context(trust_env=False),
        max_connections=limits.max_connections,
        max_keepalive_connections=limits.max_keepalive_connections,
        keepalive_expiry=limits.keepalive_expiry,
        network_backend=backend,
    )

    class _EgressTransport(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            url = request.url
            _check_form(url)
            sent = httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=cast("Any", request.stream),
                extensions=_without_other_names(request.extensions),
            )
            with _httpx_errors():
                response = await pool.handle_async_request(sent)
            return httpx2.Response(
                status_code=response.status,
                headers=response.headers,
                stream=_body(cast("Any", response.stream)),
                extensions=cast("dict[str, Any]", cast("Any", response).extensions),
            )

        async def aclose(self) -> None:
            await pool.aclose()

    return _EgressTransport()


def _backend(policy: EgressPolicy, resolver: Resolver | None) -> httpcore2.AsyncNetworkBackend:
    import httpcore2

    sockets = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    class _CheckedBackend(httpcore2.AsyncNetworkBackend):
        """Opens connections to checked addresses only, and to no name."""

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,  # noqa: ASYNC109  the library's name
            local_address: str | None = None,
            socket_options: Iterable[Any] | None = None,
        ) -> httpcore2.AsyncNetworkStream:
            failure: Exception = httpcore2.ConnectError("no address answered")
            loop = asyncio.get_running_loop()
            until = loop.time() + (_CONNECT_SECONDS if timeout is None else timeout)
            for address in await policy.addresses(host, port, resolver):
                left = max(0.01, until - loop.time())
                try:
                    return await sockets.connect_tcp(address, port, left, None, socket_options)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                    # The library's message names the address.
                    failure = type(error)("no address answered")
            raise failure

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

    return _CheckedBackend()


def _check_form(url: httpx2.URL) -> None:
    if url.scheme not in ("http", "https") or not url.host:
        raise EgressRefused(url.host, "only http and https addresses are fetched", None)
    if url.userinfo:
        raise EgressRefused(url.host, "the address holds a user or password", None)
    if "%" in url.host:
        raise EgressRefused(url.host, "an address with a zone is of this machine only", None)


def _port_of(url: httpx2.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _without_other_names(extensions: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in extensions.items() if key != "sni_hostname"}


@contextmanager
def _httpx_errors() -> Generator[None]:
    """Errors of the connection as those of the client, which have the same names."""
    import httpcore2
    import httpx2

    try:
        yield
    except (
        httpcore2.TimeoutException,
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.UnsupportedProtocol,
    ) as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from None


def _body(stream: Any) -> httpx2.AsyncByteStream:
    import httpx2

    class _EgressBody(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            with _httpx_errors():
                async for chunk in stream:
                    yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return _EgressBody()


@cache
def _lookups() -> ThreadPoolExecutor:
    # Threads of their own: a slow name server must not hold up other work of the process.
    return ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="toolcrib-egress")


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """The addresses of a host by the resolver of this machine, which also reads the decimal, hex
    and octal spellings of an address. Raises `OSError`.
    """
    infos = await asyncio.get_running_loop().run_in_executor(
        _lookups(), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    )
    return tuple(dict.fromkeys(str(info[4][0]) for info in infos))


def _parsed(address: str) -> IpAddress:
    return ip_address(address.partition("%")[0])


def _unwrapped(address: IpAddress) -> IpAddress:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    low = IPv4Address(int(address) & _LOW_32_BITS)
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > _LOW_32_BITS >> 16):
        return low
    if (int(address) >> 32) & _LOW_32_BITS in _ISATAP:
        return low
    return address


def _is_public(address: IpAddress) -> bool:
    if any(address in network for network in _NEVER_PUBLIC):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _is_own(address: IpAddress) -> bool:
    """Whether a public address is one of this machine: only those can be bound to."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _plain_name(host: str) -> str:
    """A host as it is compared: lower case, no brackets, no dot at the end, addresses in their
    usual spelling.
    """
    name = host.lower().removeprefix("[").removesuffix("]").rstrip(".")
    try:
        return str(ip_address(name))
    except ValueError:
        return name


def _network(entry: str) -> IpNetwork:
    try:
        return ip_network(entry, strict=False)
    except ValueError:
        raise UsageError(
            f"cannot allow egress to {entry[:80]!r}: it is no network; write one like 10.0.0.0/8"
        ) from None


def _allowed_host(entry: str) -> str:
    name, colon, port = entry.rpartition(":")
    if not colon or (":" in name and not entry.startswith("[")) or name == "[":
        name, port = entry, ""
    if entry.endswith("]"):
        name, port = entry, ""
    is_port = not port or (port.isdecimal() and 0 < int(port) < 65536)
    plain = _plain_name(name)
    if not plain or "*" in plain or "/" in plain or any(map(str.isspace, plain)) or not is_port:
        raise UsageError(
            f"cannot allow egress to {entry[:80]!r}: write a host, host:port or a network"
        )
    return f"{plain}:{port}" if port else plain
