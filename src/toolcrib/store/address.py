"""Where a store is: an SQLite file, or a PostgreSQL database that several replicas share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from toolcrib.errors import UsageError

STORE_VARIABLE: Final = "TOOLCRIB_STORE"
"""The address of the store, where a password is not seen by whoever lists processes."""
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_SCHEMES: Final = ("postgresql", "postgres")
_HOST: Final = r"(\[[^\[\]]*\]|[^:\[\],]*)(:[0-9]*)?"
_HOSTS: Final = re.compile(rf"{_HOST}(,{_HOST})*")
"""One host, or several of which the driver takes the first that answers."""
_PORT: Final = re.compile(r":([0-9]+)(?=,|$)")
_LAST_PORT: Final = 65_535


class DatabaseUrl:
    """The URL of a PostgreSQL database. Its text is without the password, which only `url` has. No
    dataclass: what prints the fields of options would print it.
    """

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        self._url: Final = url
        try:
            parts = urlsplit(url)
        except ValueError:
            raise UsageError(f"the address of the store is malformed; {_FORM}") from None
        if parts.scheme not in _SCHEMES:
            raise UsageError(f"a store is not opened by {parts.scheme[:20]}://; {_FORM}")
        user, _, hosts = parts.netloc.rpartition("@")
        ports = (int(port) for port in _PORT.findall(hosts))
        if (
            not url.startswith(f"{parts.scheme}://")
            or not _HOSTS.fullmatch(hosts)
            or any(port > _LAST_PORT for port in ports)
        ):
            raise UsageError(f"the address of the store is malformed; {_FORM}")
        if parts.fragment:
            raise UsageError(
                "the address of the store has a #, which ends it; write a # in a password as %23"
            )
        # A / or ? in a password ends the host, and the rest of it would be shown as the database.
        if "@" in parts.path or ("@" in parts.query and not user):
            raise UsageError(
                "the address of the store has an @ behind its host; write a / in a password as "
                "%2F, a ? as %3F, and an @ in the name of a database as %40"
            )

    @property
    def url(self) -> str:
        """The whole URL, for the driver."""
        return self._url

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatabaseUrl) and other._url == self._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __repr__(self) -> str:
        return f"DatabaseUrl({str(self)!r})"

    def __str__(self) -> str:
        """The URL for people: without the password and without options."""
        parts = urlsplit(self.url)
        user, separator, host = parts.netloc.rpartition("@")
        return f"{parts.scheme}://{user.partition(':')[0]}{separator}{host}{parts.path}"

    def without_secrets(self, text: str) -> str:
        """A text, such as an error of the driver, without the password."""
        parts = urlsplit(self.url)
        secret_values = {value for name, value in parse_qsl(parts.query) if name == "password"}
        for secret in {parts.password, *secret_values} - {None, ""}:
            text = text.replace(str(secret), "***")
        return text


_FORM: Final = (
    "write the path of an SQLite file, or postgresql://USER:PASSWORD@HOST:PORT/DATABASE with %XX "
    "for special characters"
)

StoreAddress = Path | DatabaseUrl


def store_address(text: str | StoreAddress, *, folder: Path | None = None) -> StoreAddress:
    """The address that a person wrote: a URL, or a path, which starts from `folder`. Raises
    `UsageError`.
    """
    if isinstance(text, DatabaseUrl):
        return text
    if isinstance(text, str) and _URL.match(text):
        return DatabaseUrl(text)
    path = Path(text)
    return path if folder is None else folder / path.expanduser()
