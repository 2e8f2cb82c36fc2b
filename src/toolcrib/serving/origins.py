"""Which names a server answers to, and which pages may talk to it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from toolcrib.errors import Refused, UsageError

_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")
LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Doors:
    """The `Host` names that are answered, with any port, and the foreign origins that may ask.

    A page of another name that resolves to this machine comes with that name, and is refused.
    """

    hosts: frozenset[str]
    origins: frozenset[str]

    def check(self, host: str | None, origin: str | None, *, scheme: str) -> None:
        """Raise `Refused` unless both are let in. A program sends no origin."""
        if host is None or _name(host) not in self.hosts:
            raise Refused("forbidden", "this Host is not served here; see allowed_hosts")
        if origin is None or origin in self.origins:
            return
        if origin.lower() != f"{scheme}://{host.lower()}":
            raise Refused("forbidden", "pages of this Origin may not ask; see allowed_origins")


def doors(hosts: Iterable[str] | None, origins: Iterable[str] | None) -> Doors:
    """Checked rules; without hosts, the names of loopback. A wildcard is refused."""
    names = frozenset(name.lower() for name in (hosts or LOOPBACK_HOSTS))
    pages = frozenset(origins or ())
    for each in (*names, *pages):
        if "*" in each:
            raise UsageError(f"{each!r} lets anybody in; name each host and origin")
    for each in pages:
        scheme, _, rest = each.partition("://")
        if scheme not in ("http", "https") or not rest or "/" in rest:
            raise UsageError(f"an origin is scheme://host[:port], not {each!r}")
    for each in names:
        if _name(each) != each:
            raise UsageError(f"an allowed host is a name without scheme and port, not {each!r}")
    return Doors(names, pages)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_bind(host: str, *, has_explicit_token: bool) -> None:
    """Raise `UsageError` when others could reach a server that nobody chose a token for."""
    if not is_loopback(host) and not has_explicit_token:
        raise UsageError(
            f"{host} can be reached from other machines, so a token must be given explicitly; "
            "give one, or listen on 127.0.0.1"
        )


def _name(host: str) -> str | None:
    """A `Host` header without its port; None when it is not a host."""
    found = _HOST.fullmatch(host)
    return found[1].lower() if found else None
