"""What counts as a domain name in a tool's options."""

from __future__ import annotations

import re

from toolcrib.errors import InvalidTool

LONGEST_DOMAIN = 253
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def check_domains(field: str, domains: object) -> None:
    """Refuse what is not a tuple of bare domain names such as `docs.example.org`."""
    if not isinstance(domains, tuple):
        raise InvalidTool(f"{field} must be a tuple of domains, not {type(domains).__name__}")
    for domain in domains:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(domain, str) or not _is_domain(domain):
            raise InvalidTool(
                f"{field}: {domain!r} is not a domain; write the bare name, like 'example.org', "
                "without protocol, port, path or spaces"
            )


def _is_domain(domain: str) -> bool:
    try:
        # Names in other scripts are checked in the form in which they are looked up.
        wire = domain.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    return len(wire) <= LONGEST_DOMAIN and all(map(_LABEL.fullmatch, wire.split(".")))
