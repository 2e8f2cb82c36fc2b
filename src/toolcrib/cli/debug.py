"""`--debug`: tracebacks on stderr, of the command and of tools that raised in this process.

They go nowhere else: no client of a server sees them.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

VARIABLE: Final = "TOOLCRIB_DEBUG"
HINT: Final = f"for the traceback, run it with `toolcrib --debug ...` or {VARIABLE}=1"

_HANDLER: Final = "toolcrib-debug"
_is_on: ContextVar[bool] = ContextVar("debug", default=False)


@contextmanager
def debug_output() -> Generator[None]:
    """Show tracebacks until the end of the block: those of the log, and those of `fail`."""
    import logging

    logger, handler = logging.getLogger("toolcrib"), logging.StreamHandler(sys.stderr)
    handler.set_name(_HANDLER)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    before, token = logger.level, _is_on.set(True)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        _is_on.reset(token)


def leave_to_log() -> None:
    """Let a log that is written from now on have the tracebacks alone, or they would come twice."""
    import logging

    logger = logging.getLogger("toolcrib")
    for handler in [each for each in logger.handlers if each.name == _HANDLER]:
        logger.removeHandler(handler)


def is_debug() -> bool:
    """Whether this command shows tracebacks."""
    return _is_on.get()


def show_traceback() -> None:
    """Print the traceback of the exception that is being handled, with --debug."""
    if is_debug() and sys.exception() is not None:
        import traceback

        traceback.print_exc(file=sys.stderr)
