"""Which function a confined process calls, and which files it needs to find it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.errors import InvalidTool
from toolcrib.sandbox.python import library_folders


@dataclass(frozen=True, slots=True)
class Target:
    """A function by its address. `modules` are the files (or folders without one) of modules by
    name, outside of where libraries are installed.
    """

    module: str
    function: str
    modules: dict[str, str]

    @property
    def readable(self) -> tuple[Path, ...]:
        """What has to be seen of the machine to import it: a module, or a package as a whole."""
        files = [Path(file) for file in self.modules.values() if os.path.isfile(file)]
        return tuple(file.parent if file.name == "__init__.py" else file for file in files)


def target_of(handler: Callable[..., Any], tool: str) -> Target:
    """The address of a handler. Raises `InvalidTool` for one that another process cannot import."""
    module: str = getattr(handler, "__module__", "") or ""
    function: str = getattr(handler, "__qualname__", "") or ""
    if module in ("", "__main__") or not function or _at(module, function) is not handler:
        raise InvalidTool(
            f"tool {tool!r}: a handler in a sandbox must be a function of a module, so that "
            "another process can import it; move it to the top of a module"
        )
    return Target(module, function, {**_outside(module), **_outside("toolcrib")})


def _at(module: str, function: str) -> object:
    found: Any = sys.modules.get(module)
    for part in function.split("."):
        found = getattr(found, part, None)
    return found


def _outside(module: str) -> dict[str, str]:
    """The files to find a module by, when it is not among the installed libraries: its topmost
    package, and the bare folders above that.
    """
    found: dict[str, str] = {}
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        spec = importlib.util.find_spec(name)
        if spec is None:
            return found
        if spec.origin is None and spec.submodule_search_locations:
            found[name] = next(iter(spec.submodule_search_locations))
        elif spec.origin and os.path.isfile(spec.origin) and not _is_installed(Path(spec.origin)):
            return {**found, name: spec.origin}
        else:
            return {}
    return found


def _is_installed(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in library_folders())
