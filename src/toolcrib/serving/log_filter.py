"""Keeps credentials out of the logs of the libraries that see them."""

from __future__ import annotations

import logging
import re
from typing import Final

_LIBRARIES: Final = (
    "asyncio",
    "h11",
    "httpcore",
    "httpcore2",
    "httpx",
    "httpx2",
    "mcp",
    "sse_starlette",
    "starlette",
    "uvicorn",
    "websockets",
)
"""Their loggers write headers, addresses and scopes of requests at DEBUG."""
_CREDENTIALS: Final = re.compile(
    r"""
    (?P<kept>
        (?:proxy-)?authorization["']?\s*[:=,]\s*(?:b?["'])?(?:bearer\s+|basic\s+)?
      | \bbearer\s+
      | toolcrib\.bearer\.
      | \b(?:access_token|token|id_token|refresh_token|code|client_secret)=
    )
    [^\s"'&,)\]]+
  | (?P<cookie>(?:set-)?cookie["']?\s*[:=,]\s*(?:b?["'])?)[^\r\n"']+
  | (?P<name>tc_[a-z2-7]{12}_)[A-Za-z0-9_-]{20,}
  | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    """,
    re.IGNORECASE | re.VERBOSE,
)
_HINTS: Final = re.compile(r"authorization|bearer|cookie|token=|code=|secret=|tc_|eyJ", re.I)


def without_credentials(text: str) -> str:
    """The text with each credential replaced by `***`."""
    if _HINTS.search(text) is None:
        return text
    return _CREDENTIALS.sub(lambda m: f"{m['kept'] or m['cookie'] or m['name'] or ''}***", text)


class CredentialFilter(logging.Filter):
    """Replaces credentials in log records, whatever their level."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, without its credentials."""
        text = record.getMessage()
        clean = without_credentials(text)
        if clean != text:
            record.msg, record.args = clean, ()
        return True


_FILTER: Final = CredentialFilter()


def redact_logs() -> None:
    """Filter the logs of the libraries under a server from now on. A logger does not filter what
    its children log, so each child is filtered too; call this again after a library was imported.
    """
    known = [name for name in logging.root.manager.loggerDict if name.startswith(_LIBRARIES)]
    for name in {*_LIBRARIES, "uvicorn.error", "uvicorn.access", "uvicorn.asgi", *known}:
        logging.getLogger(name).addFilter(_FILTER)
