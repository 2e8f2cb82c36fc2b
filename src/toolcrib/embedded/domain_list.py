"""The allowed domains of a container's network policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

MAX_DOMAINS: Final = 100
_WILDCARD: Final = "*."


@dataclass(frozen=True, slots=True)
class DomainList:
    """Domain names. `example.com` is that name alone, `*.example.com` all names below it."""

    domains: tuple[str, ...]

    @classmethod
    def of(cls, entries: Sequence[object]) -> DomainList:
        """Read a list. Raises `ValueError`, whose message says what is wrong with which entry."""
        if not 0 < len(entries) <= MAX_DOMAINS:
            raise ValueError(f"give 1 to {MAX_DOMAINS} domains")
        domains: list[str] = []
        for entry in entries:
            text = entry if isinstance(entry, str) else ""
            below = text.startswith(_WILDCARD)
            name = cls.plain(text.removeprefix(_WILDCARD))
            if name is None:
                raise ValueError(
                    f"{str(entry)[:80]!r} is no domain; write names such as pypi.org or "
                    "*.pythonhosted.org, without scheme, port or path"
                )
            domains.append(f"{_WILDCARD}{name}" if below else name)
        return cls(tuple(dict.fromkeys(domains)))

    def admits(self, host: str) -> bool:
        """Whether a host is one of the domains. An address never is."""
        name = self.plain(host)
        if name is None:
            return False
        above = [name.split(".", n)[n] for n in range(1, name.count(".") + 1)]
        return name in self.domains or any(f"{_WILDCARD}{each}" in self.domains for each in above)

    @staticmethod
    def plain(name: str) -> str | None:
        """A name as it is compared: ASCII, lower case, no dot at the end. None for an address in
        any spelling, and for what is no name.
        """
        import httpx2

        try:
            host = httpx2.URL(f"http://{name}/").raw_host.decode("ascii")
        except (httpx2.InvalidURL, ValueError, TypeError):
            return None
        host = host.lower().removesuffix(".")
        labels = host.split(".")
        if len(host) > 253 or not all(map(_is_label, labels)) or _is_number(labels[-1]):
            return None
        # The whole text must be the host: no port, no path, no user.
        written = name.removesuffix(".")
        if any(char in written for char in "/:@?#\\%[] \t\r\n"):
            return None
        return None if _is_address(host) else host

    def __str__(self) -> str:
        return ", ".join(self.domains)


def _is_label(label: str) -> bool:
    is_plain = all(char.isascii() and (char.isalnum() or char in "-_") for char in label)
    return 0 < len(label) <= 63 and is_plain and not label.startswith("-")


def _is_number(label: str) -> bool:
    """Whether a name that ends so is read as an address: 127.1, 0x7f.1, 2130706433."""
    return label.isdecimal() or label.startswith("0x")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
