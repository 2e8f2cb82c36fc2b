"""Errors that say where in a prompt they arose."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from toolcrib.errors import InvalidPrompt, InvalidTool


@contextmanager
def located(where: str) -> Generator[None, None, None]:
    """Put `where` in front of what an error says is wrong with a prompt or a tool in it."""
    try:
        yield
    except (InvalidPrompt, InvalidTool) as error:
        raise InvalidPrompt(f"{where}: {error}") from error
