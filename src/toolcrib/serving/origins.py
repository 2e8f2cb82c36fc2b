"""The hosts that a server answers to, the origins whose pages may use it, and the proxies that it
believes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

from toolcrib.errors import Refused, UsageError

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")
LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class AllowedOrigins:
    """The `Host` names that a server answers to, with any port, and the foreign origins that may
    send requests. The check of `Host` is the defence against DNS rebinding.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    own: str | None = None
    """The origin of the server's public address, which a proxy may have changed on the way."""

    @classmethod
    def of(
        cls, hosts: Iterable[str] | None, origins: Iterable[str] | None, own: str | None = None
    ) -> Self:
        """Validated rules. Without hosts, the loopback names. Raises `UsageError` for a wildcard
        or a malformed name.
        """
        names = frozenset(name.lower() for name in (hosts or LOOPBACK_HOSTS))
        pages = frozenset(origins or ())
        for name in (*names, *pages):
            if "*" in name:
                raise UsageError(f"wildcard {name!r} admits everybody; name each host and origin")
        for page in pages:
            scheme, _, rest = page.partition("://")
            if scheme not in ("http", "https") or not rest or "/" in rest:
                raise UsageError(f"invalid origin {page!r}; write scheme://host[:port]")
        for name in names:
            if _name(name) != name:
                raise UsageError(f"invalid allowed host {name!r}; write it without scheme and port")
        return cls(names, pages, own)

    def check(self, host: str | None, origin: str | None, *, scheme: str) -> None:
        """Raise `Refused` (forbidden) unless both are allowed. Programs send no origin."""
        if host is None or _name(host) not in self.hosts:
            raise Refused("forbidden", "this Host is not allowed; see allowed_hosts")
        if origin is None or origin in self.origins or origin == self.own:
            return
        if origin.lower() != f"{scheme}://{host.lower()}":
            raise Refused("forbidden", "this Origin is not allowed; see allowed_origins")


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What a trusted proxy says about the request that it passes on; None where it says nothing."""

    client: str | None = None
    scheme: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The networks of the proxies whose `X-Forwarded-For`, `-Proto` and `-Host` are believed. From
    any other address these headers mean nothing: whoever sends a request can write them.
    """

    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def of(cls, networks: Iterable[str]) -> Self:
        """Validated networks. Raises `UsageError`."""
        parsed: list[IPv4Network | IPv6Network] = []
        for name in networks:
            try:
                network = ip_network(name)
            except ValueError as error:
                raise UsageError(f"trusted proxy {name[:80]!r}: {error}") from None
            if network.prefixlen == 0:
                raise UsageError(f"trusted proxy {name!r} is everybody; name the proxy's network")
            parsed.append(network)
        return cls(tuple(parsed))

    def trusts(self, peer: str | None) -> bool:
        """Whether the address of a connection is that of a trusted proxy."""
        address = None if peer is None else _address(peer)
        return address is not None and any(address in network for network in self.networks)

    def forwarded(self, headers: Iterable[tuple[bytes, bytes]]) -> Forwarded:
        """What the headers of a trusted proxy say. Raises `Refused` (invalid) for a scheme that is
        none.
        """
        schemes = _list_header(headers, b"x-forwarded-proto")
        hosts = _list_header(headers, b"x-forwarded-host")
        # The last values are those that the proxy itself wrote.
        scheme = schemes[-1].lower() if schemes else None
        if scheme not in (None, "http", "https"):
            raise Refused("invalid", "X-Forwarded-Proto must be http or https")
        client = self._client(_list_header(headers, b"x-forwarded-for"))
        return Forwarded(client, scheme, hosts[-1] if hosts else None)

    def _client(self, hops: list[str]) -> str | None:
        """The last address that is not a trusted proxy; what stands before it is hearsay."""
        client = None
        for hop in reversed(hops):
            address = _address(hop)
            if address is None:
                break
            client = str(address)
            if not self.trusts(client):
                break
        return client


def _list_header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    values = [value.decode("latin-1") for key, value in headers if key.lower() == name]
    return [part.strip() for part in ",".join(values).split(",") if part.strip()]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, with or without a port; None when it is malformed."""
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    if bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ip_address(bare)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def own_hosts(host: str) -> tuple[str, ...]:
    """The names of a server that listens on `host`: loopback, and `host` if it is an address. A
    name is left out, because whoever owns it can make it resolve to this machine.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return LOOPBACK_HOSTS
    if address.is_unspecified:
        return LOOPBACK_HOSTS
    return (*LOOPBACK_HOSTS, f"[{host}]" if address.version == 6 else host)


def is_loopback(host: str) -> bool:
    """Whether a server that listens on `host` is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str | None:
    """A `Host` header without its port; None when it is malformed."""
    match = _HOST.fullmatch(host)
    return match[1].lower() if match else None
