"""Finds handlers in Python modules, and loads changed modules anew beside the old."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from toolcrib.errors import InvalidTool
from toolcrib.host_tools.offer import describe


def make_cwd_importable() -> None:
    """Let modules of the folder that the program runs in be imported.

    It is searched last, so that no file in it takes the place of an installed library.
    """
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.append(folder)
        importlib.invalidate_caches()


def import_named(name: str) -> ModuleType:
    """Import a module by its full name. Raises `InvalidTool` for whatever goes wrong in it."""
    make_cwd_importable()
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise InvalidTool(f"cannot import {name!r}: {describe(error)}") from error


def find_callable(module: str, path: str) -> Callable[..., Any]:
    """The function at `path` (with dots for attributes) of a module. Raises `InvalidTool`."""
    found: Any = import_named(module)
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise InvalidTool(f"{module!r} has no {path!r}") from None
    if not callable(found):
        raise InvalidTool(f"{path!r} of {module!r} is not callable; it is {type(found).__name__}")
    return found


def is_imported(name: str) -> bool:
    """Whether a module is there already."""
    return name in sys.modules


def source_of(name: str) -> Path | None:
    """The file that a module is read from; None when it has no Python source that can be found."""
    spec = _spec_of(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


@contextmanager
def loaded_anew(names: Iterable[str]) -> Generator[None]:
    """Load modules from their changed sources; if that or the block fails, the old ones are back.

    Each becomes a new module object: functions of the old one go on with the globals they had.
    """
    old = {name: sys.modules[name] for name in names if name in sys.modules}
    try:
        for name in old:
            _load_anew(name)
        yield
    except BaseException:
        for name, module in old.items():
            _install(name, module)
        raise


def _load_anew(name: str) -> None:
    spec, source = _spec_of(name), source_of(name)
    if spec is None or source is None:
        return
    module = importlib.util.module_from_spec(spec)
    _install(name, module)
    try:
        # Not by way of the byte code cache: it takes an edit of the same second and size for old.
        code = compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise InvalidTool(f"cannot load {name!r} anew: {describe(error)}") from error


def _install(name: str, module: ModuleType) -> None:
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)


def _spec_of(name: str) -> ModuleSpec | None:
    if is_imported(name):
        return getattr(sys.modules[name], "__spec__", None)
    make_cwd_importable()
    try:
        return importlib.util.find_spec(name)
    except (Exception, SystemExit):
        # Looking for it imports the packages around it, which may be broken.
        return None
