"""The resources and prompts that an application has registered, and who hears of changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from toolcrib.errors import DuplicateTool
from toolcrib.features.declaration import Feature, ServedPrompt, ServedResource

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """A list of resources or of prompts is another one, or the content at `uri` is."""

    kind: Literal["resources", "prompts", "updated"]
    uri: str | None = None


RESOURCES_CHANGED: Final = FeatureChange("resources")
PROMPTS_CHANGED: Final = FeatureChange("prompts")

FeatureListener: TypeAlias = Callable[[FeatureChange], None]
"""Called in the thread that makes a change. It must not block."""


@dataclass(frozen=True, slots=True)
class RegisteredFeature:
    """A feature, and the group that it was loaded from: a file, a module, a plugin."""

    feature: Feature
    group: str | None = None


_State: TypeAlias = Mapping[str, RegisteredFeature]
_REPLACING: ContextVar[bool] = ContextVar("toolcrib_features_replacing", default=False)


class FeatureRegistry:
    """Resources by URI and prompts by name, in the order of registration. Safe for threads."""

    def __init__(self) -> None:
        self._state: _State = MappingProxyType({})
        self._lock = threading.RLock()
        self._listeners: dict[object, FeatureListener] = {}

    @property
    def resources(self) -> list[ServedResource]:
        """The resources and templates."""
        return [feature for feature in self.all if isinstance(feature, ServedResource)]

    @property
    def prompts(self) -> list[ServedPrompt]:
        """The prompts."""
        return [feature for feature in self.all if isinstance(feature, ServedPrompt)]

    @property
    def all(self) -> list[Feature]:
        """The resources and the prompts."""
        return [each.feature for each in self._state.values()]

    @property
    def state(self) -> object:
        """Another object after every change, to tell whether a list is still true."""
        return self._state

    def add(self, features: Iterable[Feature], group: str | None = None) -> None:
        """Add resources and prompts: all of them or, on an error, none. Raises `DuplicateTool`."""
        with self._lock:
            state = dict(self._state)
            for feature in features:
                if feature.key in state and not _REPLACING.get():
                    raise DuplicateTool(
                        f"there is a {feature.key} already; a URI and a name are of one feature"
                    )
                state[feature.key] = RegisteredFeature(feature, group)
            self._become(state)

    def remove(self, features: Iterable[Feature]) -> bool:
        """Remove resources and prompts; False when there is none of them."""
        keys = {feature.key for feature in features}
        with self._lock:
            state = {key: each for key, each in self._state.items() if key not in keys}
            is_removed = len(state) < len(self._state)
            self._become(state)
        return is_removed

    def adopt(self, groups: Iterable[str], source: FeatureRegistry) -> None:
        """Replace all that came from these groups by what another registry has, in one step.

        Raises `DuplicateTool`, and then nothing has changed.
        """
        gone = set(groups)
        with self._lock:
            state = {key: each for key, each in self._state.items() if each.group not in gone}
            for key, each in source._state.items():
                if key in state:
                    raise DuplicateTool(f"there is a {key} already")
                state[key] = each
            self._become(state)

    def updated(self, uri: str) -> None:
        """Tell subscribed clients that the content of a resource is another one."""
        self._notify(FeatureChange("updated", uri))

    def subscribe(self, listener: FeatureListener) -> Callable[[], None]:
        """Call `listener` on every change; returns the function that unsubscribes it."""
        token = object()
        self._listeners[token] = listener
        return lambda: _drop(self._listeners, token)

    @contextmanager
    def all_or_nothing(self) -> Generator[None]:
        """Take back what a block has changed if it raises."""
        before = self._state
        try:
            yield
        except BaseException:
            with self._lock:
                self._become(before)
            raise

    @contextmanager
    def replacing(self) -> Generator[None]:
        """Let what the block adds take the place of its namesakes."""
        token = _REPLACING.set(True)
        try:
            yield
        finally:
            _REPLACING.reset(token)

    def _become(self, state: _State) -> None:
        old, self._state = self._state, MappingProxyType(dict(state))
        for kind, change in ((ServedResource, RESOURCES_CHANGED), (ServedPrompt, PROMPTS_CHANGED)):
            if _of(kind, old) != _of(kind, state):
                self._notify(change)

    def _notify(self, change: FeatureChange) -> None:
        for listener in list(self._listeners.values()):
            try:
                listener(change)
            except Exception:
                logger.exception("a listener failed on changed resources or prompts")


def _of(kind: type, state: _State) -> list[Feature]:
    return [each.feature for each in state.values() if isinstance(each.feature, kind)]


def _drop(listeners: dict[object, FeatureListener], token: object) -> None:
    listeners.pop(token, None)
