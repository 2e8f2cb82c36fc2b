"""The handlers that factories made for one session: each is made once, and closed at its end."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any, cast

from toolcrib.errors import InvalidTool, UsageError
from toolcrib.host_tools.definition import (
    HostToolDefinition,
    SessionFactory,
    SessionHandler,
    ToolHandler,
)
from toolcrib.tools.context import ToolContext

logger = logging.getLogger(__name__)


class SessionHandlers:
    """Safe for several threads: one of them runs a factory, the others wait for what it made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By identity: an equal definition registered anew has resources of its own.
        self._made: dict[int, _Made] = {}

    def handler(self, definition: HostToolDefinition, context: ToolContext) -> ToolHandler:
        """The session's own handler. Raises what the factory raised, the same every time."""
        with self._lock:
            made = self._made.get(id(definition))
            is_first = made is None
            if made is None:
                made = self._made[id(definition)] = _Made(definition)
        if is_first:
            made.make(context)
        return made.wait().handler

    async def close(self) -> None:
        """Close what was made, last first. One that fails is logged; the others are closed."""
        with self._lock:
            found = list(self._made.values())
            self._made.clear()
        async with AsyncExitStack() as stack:
            for made in found:
                stack.push_async_callback(made.close)


class _Made:
    def __init__(self, definition: HostToolDefinition) -> None:
        self._definition = definition
        self._result: Future[SessionHandler] = Future()
        self._maker = threading.get_ident()
        # Running from the start: who stops waiting for it cannot cancel it.
        self._result.set_running_or_notify_cancel()

    def make(self, context: ToolContext) -> None:
        definition = self._definition
        factory = cast("SessionFactory", definition.factory)
        try:
            self._result.set_result(_checked(definition.name, factory(context)))
        except BaseException as error:
            self._result.set_exception(error)
            if not isinstance(error, Exception):
                raise

    def wait(self) -> SessionHandler:
        if not self._result.done() and self._maker == threading.get_ident():
            raise UsageError(
                f"the factory of tool {self._definition.name!r} asks for the tools of the session "
                "that it makes a handler for"
            )
        return self._result.result()

    async def close(self) -> None:
        # A factory that another thread is still running must not leave its handler open.
        await asyncio.gather(asyncio.wrap_future(self._result), return_exceptions=True)
        if self._result.exception() is not None:
            return
        close = self._result.result().close
        try:
            closing = close() if close is not None else None
            if inspect.isawaitable(closing):
                await closing
        except Exception:
            logger.exception("tool %r failed to close", self._definition.name)


def _checked(name: str, made: Any) -> SessionHandler:
    found = made if isinstance(made, SessionHandler) else SessionHandler(made)
    if not callable(found.handler):
        raise InvalidTool(
            f"tool {name!r}: the factory must return a handler or a SessionHandler, "
            f"not {type(made).__name__}"
        )
    return found
