"""Where other replicas reach a server."""

from __future__ import annotations

import pytest

from toolcrib.errors import UsageError
from toolcrib.serving.replica_address import checked_replica_url, listener_url, replica_host


def test_a_replica_url_is_scheme_host_and_port() -> None:
    """Other replicas add their own paths."""
    assert checked_replica_url("http://10.0.0.5:8420/") == "http://10.0.0.5:8420"
    assert replica_host("http://[fd00::1]:8420") == "[fd00::1]"
    assert replica_host("https://One.Crib.example") == "one.crib.example"


@pytest.mark.parametrize(
    "url",
    [
        "10.0.0.5:8420",
        "ftp://10.0.0.5",
        "http://name:secret@10.0.0.5",
        "http://10.0.0.5/crib",
        "http://10.0.0.5:eight",
        "http://",
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    """A replica that others cannot reach would make every session of its own unreachable."""
    with pytest.raises(UsageError, match="http://HOST:PORT") as refused:
        checked_replica_url(url)

    assert "secret" not in str(refused.value)


def test_a_server_on_every_address_must_say_where_it_is() -> None:
    """Loopback would be another machine's own."""
    assert listener_url("127.0.0.1", "http://127.0.0.1:1") == "http://127.0.0.1:1"
    for host in ("0.0.0.0", "::", ""):
        with pytest.raises(UsageError, match="--replica-url"):
            listener_url(host, "http://127.0.0.1:1")
