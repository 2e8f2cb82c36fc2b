"""Exports of a package that load their module on first use: importing the package stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package that exports names of other modules.

    `modules` maps the full name of each module to the names exported from it. A package assigns
    the result under `if not TYPE_CHECKING:`: a type checker that sees a module's `__getattr__`
    accepts every misspelt name.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def __getattr__(name: str) -> object:  # noqa: N807
        module = homes.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        # Kept in the package, so that the next access does not come here.
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted(sys.modules[package].__all__)

    return __getattr__, __dir__
