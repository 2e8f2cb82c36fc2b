"""The hosts that a server answers to, and the origins whose pages may use it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
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

    @classmethod
    def of(cls, hosts: Iterable[str] | None, origins: Iterable[str] | None) -> Self:
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
        return cls(names, pages)

    def check(self, host: str | None, origin: str | None, *, scheme: str) -> None:
        """Raise `Refused` (forbidden) unless both are allowed. Programs send no origin."""
        if host is None or _name(host) not in self.hosts:
            raise Refused("forbidden", "this Host is not allowed; see allowed_hosts")
        if origin is None or origin in self.origins:
            return
        if origin.lower() != f"{scheme}://{host.lower()}":
            raise Refused("forbidden", "this Origin is not allowed; see allowed_origins")


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


def check_bind(host: str, *, has_explicit_token: bool) -> None:
    """Raise `UsageError` when other machines could reach a server whose token nobody chose."""
    if not is_loopback(host) and not has_explicit_token:
        raise UsageError(
            f"{host} is reachable from other machines, so a token must be set explicitly; "
            "set one, or listen on 127.0.0.1"
        )


def _name(host: str) -> str | None:
    """A `Host` header without its port; None when it is malformed."""
    match = _HOST.fullmatch(host)
    return match[1].lower() if match else None
