"""Keeps the secrets of an address out of what the libraries below us log."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolcrib.tools.redaction import Scrubber

_LOGGERS: Final = ("httpx2", "mcp.client.streamable_http")
"""These name the whole address of every request."""


class _Hiding(logging.Filter):
    def __init__(self, hidden: Scrubber) -> None:
        super().__init__()
        self._hidden = hidden

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._hidden.scrub(record.getMessage()), ()
        return True


@contextmanager
def secrets_kept(hidden: Scrubber) -> Generator[None]:
    """Within this, what those libraries log has no secret of ours in it."""
    hiding = _Hiding(hidden)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(hiding)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hiding)
