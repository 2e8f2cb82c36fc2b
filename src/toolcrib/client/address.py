"""The address of a server, and the token that goes there."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from toolcrib.errors import UsageError
from toolcrib.extras import install_command
from toolcrib.serving.origins import is_loopback

TOKEN_VARIABLE: Final = "TOOLCRIB_TOKEN"


@dataclass(frozen=True, slots=True)
class ServerLocation:
    """Where a server is, and how to reach it. The token is in no text that this makes."""

    url: str
    token: str = field(repr=False)
    ca_file: Path | None = None
    """The certificates that are trusted in place of the system's."""
    proxy: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The host and port, for messages."""
        return urlsplit(self.url).netloc

    @property
    def is_encrypted(self) -> bool:
        """Whether the token goes over TLS."""
        return self.url.startswith("https:")

    @property
    def is_exposed(self) -> bool:
        """Whether the token goes over a network as plain text."""
        return not self.is_encrypted and not is_loopback(urlsplit(self.url).hostname or "")

    @property
    def socket_url(self) -> str:
        """The address of the WebSocket."""
        return f"ws{self.url.removeprefix('http')}/v1/ws"

    def tls(self) -> ssl.SSLContext:
        """What certificates are checked against."""
        if not self.is_encrypted:
            # Reading the system's certificates takes longer than most requests.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return ssl.create_default_context(cafile=self.ca_file)


def server_location(
    url: str,
    token: str | None = None,
    token_file: Path | str | None = None,
    *,
    ca_file: Path | str | None = None,
    proxy: str | None = None,
) -> ServerLocation:
    """The server at `url`. Without a token it is that of `TOOLCRIB_TOKEN` or, for a server on this
    machine, of the owner's token file. Raises `UsageError`.
    """
    _check_libraries()
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url} is no HTTP address; write it like http://127.0.0.1:8420")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "the address of a server has neither a user nor a query; pass the token as `token`"
        )
    return ServerLocation(
        url.rstrip("/"),
        token or _token(url, parts.hostname, token_file),
        None if ca_file is None else Path(ca_file),
        proxy,
    )


def _check_libraries() -> None:
    missing = [name for name in ("httpx2", "websockets") if find_spec(name) is None]
    if missing:
        needed = " and ".join(missing)
        raise UsageError(f"the client needs {needed}; run: {install_command('client')}")


def _token(url: str, host: str, token_file: Path | str | None) -> str:
    from toolcrib.serving.tokens import default_token_file, owner_token

    if token_file is not None:
        return owner_token(Path(token_file))
    if token := os.environ.get(TOKEN_VARIABLE):
        return token
    # The token in the default file is only for servers on this machine.
    if is_loopback(host) and default_token_file().exists():
        return owner_token(default_token_file())
    raise UsageError(
        f"no token for {url}; give `token` or `token_file` (--token-file), or set {TOKEN_VARIABLE}"
    )
