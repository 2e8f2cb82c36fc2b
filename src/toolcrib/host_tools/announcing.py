"""Tells listeners what changed, in the order it changed."""

from __future__ import annotations

import logging
from collections import deque

from toolcrib.host_tools.registration import Listener, RegistryChange

logger = logging.getLogger(__name__)


class Announcer:
    """Used by one thread at a time: the registry's lock for writers is held meanwhile.

    When a listener changes the registry itself, that is told after the others have heard what it
    was told, so that all of them hear the same order.
    """

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}
        self._waiting: deque[tuple[RegistryChange, ...]] = deque()
        self._is_speaking = False

    def add(self, token: object, listener: Listener) -> None:
        """Tell this listener too."""
        self._listeners[token] = listener

    def remove(self, token: object) -> None:
        """Tell it no more; asking twice changes nothing."""
        self._listeners.pop(token, None)

    def announce(self, changes: tuple[RegistryChange, ...]) -> None:
        """Tell every listener, or have it told by whoever is telling already."""
        if not changes:
            return
        self._waiting.append(changes)
        if self._is_speaking:
            return
        self._is_speaking = True
        try:
            while self._waiting:
                self._tell(self._waiting.popleft())
        finally:
            self._is_speaking = False

    def _tell(self, changes: tuple[RegistryChange, ...]) -> None:
        for token, listener in list(self._listeners.items()):
            if token not in self._listeners:
                continue
            try:
                listener(changes)
            except Exception:
                logger.exception("a listener failed on changed host tools")
