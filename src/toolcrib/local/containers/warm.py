"""The interpreters that are kept warm."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from toolcrib.errors import ToolcribError
from toolcrib.local.containers.fonts import known_fonts, make_fonts

if TYPE_CHECKING:
    from pathlib import Path

    from toolcrib.local.containers.interpreter import Interpreter
    from toolcrib.sandbox.sandbox import Sandbox

logger = logging.getLogger(__name__)

LIBRARIES: Final = ("matplotlib", "pandas")
MOST_WARM: Final = 8
"""Interpreters that are kept; the one that was not used for longest makes room."""


class Warm:
    """Interpreters by the container that each belongs to."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Interpreter] = OrderedDict()
        self._making_fonts: asyncio.Task[None] | None = None

    async def get(self, container_id: str, make: Callable[[], Interpreter]) -> Interpreter:
        """The interpreter of a container, which is now the last one to make room."""
        known = self._kept.pop(container_id, None)
        if known is None:
            await self._make_room()
            known = make()
        self._kept[container_id] = known
        return known

    async def drop(self, container_id: str) -> None:
        """End the interpreter of a container, if it has one."""
        known = self._kept.pop(container_id, None)
        if known is not None:
            await known.close()

    async def close(self) -> None:
        """End them all."""
        if self._making_fonts is not None:
            self._making_fonts.cancel()
            await asyncio.wait([self._making_fonts])
        while self._kept:
            await self.drop(next(iter(self._kept)))

    def fonts(self, sandbox: Sandbox) -> Path | None:
        """The list of fonts for a new interpreter. Without one it is made while the interpreter
        does other things: the next one has it.
        """
        if "matplotlib" not in installed(LIBRARIES):
            return None
        found = known_fonts()
        if found is None and self._making_fonts is None:
            self._making_fonts = asyncio.create_task(_fonts_made(sandbox))
        return found

    async def _make_room(self) -> None:
        for container_id in list(self._kept):
            if len(self._kept) < MOST_WARM:
                return
            if not self._kept[container_id].is_busy:
                await self.drop(container_id)


async def _fonts_made(sandbox: Sandbox) -> None:
    try:
        await make_fonts(sandbox)
    except (OSError, ToolcribError) as error:
        logger.warning("the list of fonts could not be made: %s", error)


def installed(libraries: tuple[str, ...]) -> tuple[str, ...]:
    """Those libraries that are installed here."""
    from importlib.metadata import PackageNotFoundError, distribution

    found: list[str] = []
    for name in libraries:
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        found.append(name)
    return tuple(found)
