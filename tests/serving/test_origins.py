"""The hosts that a server answers to, and the origins that may use it."""

from __future__ import annotations

import pytest

from toolcrib.errors import Refused, UsageError
from toolcrib.serving.origins import (
    LOOPBACK_HOSTS,
    AllowedOrigins,
    Forwarded,
    TrustedProxies,
    is_loopback,
    own_hosts,
)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_loopback_is_this_machine(host: str) -> None:
    """Only this machine reaches it."""
    assert is_loopback(host)


def test_names_are_answered_with_any_port_and_case() -> None:
    """A Host is a name that was allowed; the port is the client's way in."""
    rules = AllowedOrigins.of(None, None)
    for host in ("localhost", "LocalHost:80", "127.0.0.1:8420", "[::1]:8420"):
        rules.check(host, None, scheme="http")
    for host in (None, "", "localhost:x", "user@localhost", "localhost.", "[::1", "a b"):
        with pytest.raises(Refused, match="Host"):
            rules.check(host, None, scheme="http")


def test_a_page_comes_from_the_server_itself_or_an_allowed_origin() -> None:
    """Scheme, name and port must be the same, or named."""
    rules = AllowedOrigins.of(None, ["https://inbox.example"])
    for origin in (None, "http://localhost:1", "https://inbox.example"):
        rules.check("localhost:1", origin, scheme="http")
    for origin in ("https://localhost:1", "http://localhost", "null", "", "http://inbox.example"):
        with pytest.raises(Refused, match="Origin"):
            rules.check("localhost:1", origin, scheme="http")


@pytest.mark.parametrize(
    ("hosts", "origins"),
    [
        (["*"], None),
        (["*.example"], None),
        (["http://x.example"], None),
        (["x.example:80"], None),
        (None, ["*"]),
        (None, ["inbox.example"]),
        (None, ["https://inbox.example/page"]),
    ],
)
def test_a_rule_that_lets_anybody_in_is_refused(
    hosts: list[str] | None, origins: list[str] | None
) -> None:
    """No wildcard, and nothing that would never match."""
    with pytest.raises(UsageError):
        assert isinstance(AllowedOrigins.of(hosts, origins), AllowedOrigins)


@pytest.mark.parametrize("host", ["box.lan", "0.0.0.0", "::"])
def test_a_name_that_a_page_could_point_here_is_not_our_own(host: str) -> None:
    """Whoever owns a name can have it lead to this machine; it has to be allowed explicitly."""
    assert own_hosts(host) == LOOPBACK_HOSTS


@pytest.mark.parametrize(("host", "name"), [("10.1.2.3", "10.1.2.3"), ("fd00::7", "[fd00::7]")])
def test_the_address_that_is_listened_on_is_our_own(host: str, name: str) -> None:
    """Nobody can point an address elsewhere."""
    assert own_hosts(host) == (*LOOPBACK_HOSTS, name)


PROXIES = TrustedProxies.of(["10.0.0.0/8", "fd00::/8"])


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        (b"203.0.113.9", "203.0.113.9"),
        (b"198.51.100.1, 203.0.113.9", "203.0.113.9"),
        (b"203.0.113.9, 10.1.1.1", "203.0.113.9"),
        (b"203.0.113.9:4711", "203.0.113.9"),
        (b"[2001:db8::1]:80", "2001:db8::1"),
        (b"10.1.1.1", "10.1.1.1"),
        (b"203.0.113.9, nonsense", None),
        (b"", None),
    ],
)
def test_the_client_is_the_last_hop_that_is_no_proxy(chain: bytes, client: str | None) -> None:
    """Whatever a client writes stands further left, and is hearsay."""
    assert PROXIES.forwarded([(b"x-forwarded-for", chain)]).client == client


def test_a_proxy_says_the_scheme_and_the_host() -> None:
    """The last value is the one that the proxy wrote itself; anything but http is refused."""
    headers = [(b"X-Forwarded-Proto", b"http, HTTPS"), (b"x-forwarded-host", b"crib.example")]

    assert PROXIES.forwarded(headers) == Forwarded(None, "https", "crib.example")
    with pytest.raises(Refused, match="X-Forwarded-Proto"):
        PROXIES.forwarded([(b"x-forwarded-proto", b"gopher")])


def test_only_named_networks_are_proxies() -> None:
    """Everybody is no network to trust, and a mapped address is the one that it maps."""
    assert PROXIES.trusts("10.2.3.4")
    assert PROXIES.trusts("::ffff:10.2.3.4")
    assert not PROXIES.trusts("11.0.0.1")
    assert not PROXIES.trusts(None)
    assert not TrustedProxies().trusts("127.0.0.1")
    for network in ("0.0.0.0/0", "::/0", "10.0.0.1/8", "proxy.example"):
        with pytest.raises(UsageError, match="trusted proxy"):
            TrustedProxies.of([network])
