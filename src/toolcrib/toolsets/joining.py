"""Toolsets become pydantic-ai's own as soon as that library is imported, and never import it.

An agent takes only subclasses of `AbstractToolset`, and importing that takes longer than starting
everything else. So `Apart` stands in its place until somebody else has imported it.
"""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LIBRARY = "pydantic_ai"

_OFFERED = frozenset(
    {
        "approval_required",
        "defer_loading",
        "filtered",
        "include_return_schemas",
        "prefixed",
        "prepared",
        "renamed",
        "with_metadata",
    }
)
"""What pydantic-ai lets one do with any toolset: who asks for it wants the library imported."""


class Apart(ABC):  # noqa: B024
    """The base of toolsets while pydantic-ai is not imported.

    An `ABC` like the class that takes its place: Python exchanges only bases of one layout.
    """

    def __getattr__(self, name: str) -> Any:
        if name in _OFFERED:
            try:
                import_module(LIBRARY)
            except ImportError as error:
                raise AttributeError(
                    f"`{name}` is pydantic-ai's, which cannot be imported ({error}); "
                    "install toolcrib[pydantic-ai]"
                ) from error
            # This class is not among the bases any more, so it is not asked again.
            return getattr(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Call `then` once the top-level module `name` is imported: now, if it is already."""
    if sys.modules.get(name) is not None:
        then()
    else:
        sys.meta_path.insert(0, _Watcher(name, then))


class _Watcher(MetaPathFinder):
    """Finds one module where it would be found anyway, and tells when it has been loaded."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _TellingLoader(spec.loader, self._loaded)
                return spec
        return None

    def _loaded(self) -> None:
        sys.meta_path.remove(self)
        self._then()


class _TellingLoader(Loader):
    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps no trace of having been watched.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then()
