"""TLS: what a server offers, and how it follows a renewed certificate."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from websockets.asyncio.client import connect

from tests.helpers.patience import PATIENCE
from tests.serving.certificate import Certificate
from toolcrib.errors import UsageError
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.listener import TlsContext, TlsFiles
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.transports.http.server import HttpServer

SECRET = "owner-token-0123456789"


def trusting(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate.files.certificate)


def name_shown_by(context: ssl.SSLContext, trusted: ssl.SSLContext) -> str:
    """The name in the certificate that a new connection gets, without a network."""
    trusted.check_hostname = False
    trusted.verify_mode = ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusted.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = x509.load_der_x509_certificate(client.getpeercert(True) or b"")
    return str(shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


async def test_rest_and_sockets_are_encrypted(tmp_path: Path) -> None:
    """The URL is https, a client that trusts the certificate gets in over REST and wss, and nobody
    does in the clear or with an old TLS.
    """
    certificate = Certificate.make(tmp_path, "one")
    trusted = trusting(certificate)
    old = trusting(certificate)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    tokens = Tokens([Token(SECRET)])
    headers = {"Authorization": f"Bearer {SECRET}"}
    async with (
        create_runtime() as runtime,
        HttpServer(runtime, port=0, tokens=tokens, tls=certificate.files) as server,
    ):
        port = server.url.rpartition(":")[2]
        address = f"https://localhost:{port}"
        for context in (trusted, old):
            async with httpx2.AsyncClient(verify=context, timeout=PATIENCE) as client:
                answer = await client.get(f"{address}/v1/capabilities", headers=headers)
                page = await client.get(
                    f"{address}/v1/capabilities", headers={**headers, "Origin": address}
                )
            assert (answer.status_code, page.status_code) == (200, 200)
        async with connect(
            f"wss://localhost:{port}/v1/ws", ssl=trusted, additional_headers=headers
        ) as socket:
            await socket.send('{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
            assert "result" in str(await socket.recv())
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(b"GET /v1/capabilities HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            clear = await reader.read()
        writer.close()

    assert server.url.startswith("https://127.0.0.1:")
    assert b"200" not in clear


def test_old_versions_are_not_offered(tmp_path: Path) -> None:
    """TLS 1.2 at least."""
    context = TlsContext(Certificate.make(tmp_path, "one").files).context

    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_renewed_certificate_is_used_for_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And one whose key does not fit changes nothing."""
    own = Certificate.make(tmp_path, "one")
    trusted = trusting(own)
    tls = TlsContext(own.files)
    assert name_shown_by(tls.context, trusted) == "one"
    own.replace(Certificate.make(tmp_path, "two"))
    tls.reload_if_changed()
    assert name_shown_by(tls.context, trusted) == "two"

    other = Certificate.make(tmp_path, "three")
    os.replace(other.files.certificate, own.files.certificate)
    tls.reload_if_changed()

    assert "the last one stays" in caplog.text
    assert name_shown_by(tls.context, trusted) == "two"


def _missing(folder: Path) -> TlsFiles:
    return TlsFiles(folder / "none.pem", folder / "none.key")


def _encrypted(folder: Path) -> TlsFiles:
    return Certificate.make(folder, "locked", b"password").files


def _mixed(folder: Path) -> TlsFiles:
    one, two = (Certificate.make(folder, name).files for name in ("one", "two"))
    return TlsFiles(one.certificate, two.key)


@pytest.mark.parametrize("files", [_missing, _encrypted, _mixed])
def test_files_that_cannot_be_used_are_refused_at_once(files: Any, tmp_path: Path) -> None:
    """Missing, encrypted (nobody is there to type a password), or not a pair."""
    with pytest.raises(UsageError, match="cannot be used"):
        TlsContext(files(tmp_path))
