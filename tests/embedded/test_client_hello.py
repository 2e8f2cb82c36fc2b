"""The server name of a real client hello, and of what only looks like one."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.embedded.client_hello import read_server_name


def client_hello(name: str | None) -> bytes:
    """The first record that a TLS client sends."""
    context = ssl.create_default_context()
    if name is None:
        context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_the_name_of_a_client_hello() -> None:
    """A client names its server, and an address is no name."""
    assert read_server_name(client_hello("pypi.org")) == "pypi.org"
    assert read_server_name(client_hello("xn--bcher-kva.example")) == "xn--bcher-kva.example"
    assert read_server_name(client_hello(None)) is None


@pytest.mark.parametrize(("kind", "name"), [(0xFE0D, None), (0x1234, "pypi.org")])
def test_an_encrypted_client_hello_is_not_believed(kind: int, name: str | None) -> None:
    """Its outer name may hide another one. Any other unknown extension is let through."""
    hello, added = client_hello("pypi.org"), kind.to_bytes(2, "big") + b"\0\0"
    at = _extensions_at(hello)
    changed = b"".join(
        [
            hello[:3],
            _grown(hello[3:5], added),
            hello[5:6],
            _grown(hello[6:9], added),
            hello[9:at],
            _grown(hello[at : at + 2], added),
            hello[at + 2 :],
            added,
        ]
    )
    assert read_server_name(changed) == name


def test_a_part_of_a_client_hello_has_no_name() -> None:
    """A hello that is cut anywhere is refused, not guessed at."""
    hello = client_hello("pypi.org")
    assert all(read_server_name(hello[:size]) is None for size in range(len(hello)))


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    """Bytes of others never raise."""
    assert read_server_name(b"\x16\x03\x01\x00\xc8\x01" + data) in (None, "")
    read_server_name(data)


def _extensions_at(hello: bytes) -> int:
    at = 5 + 4 + 2 + 32
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    return at + 1 + hello[at]


def _grown(size: bytes, added: bytes) -> bytes:
    return (int.from_bytes(size, "big") + len(added)).to_bytes(len(size), "big")
