"""By which names a server is known, whatever it serves."""

from __future__ import annotations

import pytest

from toolcrib.embedded.server import ProviderServer
from toolcrib.serving.listener import Listener
from toolcrib.serving.origins import LOOPBACK_HOSTS, own_hosts
from toolcrib.transports.http.server import HttpServer


@pytest.mark.parametrize("host", ["box.lan", "0.0.0.0", "::"])
def test_a_name_that_a_page_could_point_here_is_not_our_own(host: str) -> None:
    """Whoever owns a name can have it lead to this machine; it has to be allowed explicitly."""
    assert own_hosts(host) == LOOPBACK_HOSTS


@pytest.mark.parametrize(("host", "name"), [("10.1.2.3", "10.1.2.3"), ("fd00::7", "[fd00::7]")])
def test_the_address_that_is_listened_on_is_our_own(host: str, name: str) -> None:
    """Nobody can point an address elsewhere."""
    assert own_hosts(host) == (*LOOPBACK_HOSTS, name)


def test_the_runtime_and_the_provider_listen_in_one_way() -> None:
    """What holds for one server holds for the other."""
    assert issubclass(HttpServer, Listener)
    assert issubclass(ProviderServer, Listener)
