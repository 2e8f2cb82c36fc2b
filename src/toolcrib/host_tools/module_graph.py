"""The imported modules of a folder, and the order in which changed ones are executed again: a
module comes after those that it imports.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path
from typing import Final

_NOT_OURS: Final = frozenset({"site-packages", "dist-packages", "__pycache__", "node_modules"})
_OWN_PACKAGE: Final = __name__.partition(".")[0]


def modules_in(folder: Path) -> dict[str, Path]:
    """The imported modules whose sources lie in a folder, without installed packages."""
    root = folder.resolve()
    modules: dict[str, Path] = {}
    for name, module in list(sys.modules.items()):
        source = getattr(module, "__file__", None)
        if not isinstance(source, str) or not source.endswith(".py") or name == "__main__":
            continue
        path = Path(source)
        if name.partition(".")[0] != _OWN_PACKAGE and _is_ours(path, root):
            modules[name] = path
    return modules


def _is_ours(path: Path, root: Path) -> bool:
    try:
        inner = path.resolve().relative_to(root)
    except (ValueError, OSError):
        return False
    return not any(part in _NOT_OURS or part.startswith(".") for part in inner.parts)


def reload_order(changed: Collection[str], modules: Mapping[str, Path]) -> list[str]:
    """The changed modules and all that import them, each after what it imports."""
    imports = {name: set(_imports(name, path, modules)) for name, path in modules.items()}
    stale = {name for name in changed if name in modules}
    while more := {name for name in imports if name not in stale and imports[name] & stale}:
        stale |= more
    try:
        ordered = [*TopologicalSorter(imports).static_order()]
    except CycleError:
        # In a cycle no order is right for all; the one of the first import worked once.
        ordered = [*modules]
    return [name for name in ordered if name in stale]


def _imports(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules of the folder that a module imports, in functions too."""
    try:
        document = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    is_package = path.name == "__init__.py"
    package = name if is_package else name.rpartition(".")[0]
    for node in ast.walk(document):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom():
                base = _base(node, package)
                names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
            case _:
                continue
        yield from (each for each in names if each in modules and each != name)


def _base(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    try:
        return resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return ""
