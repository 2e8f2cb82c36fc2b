"""The packages of the `mcp` SDK, imported without what they export until somebody uses it.

`import mcp` loads its client, its other server and their HTTP libraries, whichever module of it is
wanted. That is a third of the time that `toolcrib mcp` takes to start, and clients begin without a
server that is late.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final

PACKAGES: Final = ("mcp", "mcp.server")


class _LatePackage(ModuleType):
    """A package whose own code runs when a name is asked for that no submodule has set."""

    def __getattr__(self, name: str) -> Any:
        is_special = name.startswith("__") and name.endswith("__")
        if is_special or self.__dict__.get("_is_loaded"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__dict__["_is_loaded"] = True
        spec = self.__spec__
        assert spec is not None, "it was made from a spec"
        assert spec.loader is not None, "it has a file"
        spec.loader.exec_module(self)
        return getattr(self, name)


def load_on_use() -> None:
    """Import the packages so from now on. Packages that are imported already stay as they are."""
    for name in PACKAGES:
        if name in sys.modules:
            continue
        spec = find_spec(name)
        if spec is None:
            return
        module = module_from_spec(spec)
        module.__class__ = _LatePackage
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
