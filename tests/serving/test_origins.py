"""The hosts that a server answers to, and the origins that may use it."""

from __future__ import annotations

import pytest

from toolcrib.errors import Refused, UsageError
from toolcrib.serving.origins import (
    LOOPBACK_HOSTS,
    AllowedOrigins,
    check_bind,
    is_loopback,
    own_hosts,
)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_token_of_ones_own(host: str) -> None:
    """Only this machine reaches it."""
    check_bind(host, has_explicit_token=False)

    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "crib.example"])
def test_other_machines_need_a_token_that_somebody_chose(host: str) -> None:
    """A server that others reach is not opened with a token nobody was told of."""
    with pytest.raises(UsageError, match="token must be set"):
        check_bind(host, has_explicit_token=False)
    check_bind(host, has_explicit_token=True)


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
