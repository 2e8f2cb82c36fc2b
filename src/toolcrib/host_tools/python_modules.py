"""Finds handlers in Python modules, and loads changed modules anew beside the old.

Host tools from Python modules: those they list, those they decorate, those they set up.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from toolcrib.errors import InvalidTool
from toolcrib.host_tools.definition import AnyTool
from toolcrib.host_tools.registrations import Origin
from toolcrib.host_tools.visibility import describe
from toolcrib.tools.decorator import FunctionTool
from toolcrib.tools.prepared import Describes
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry


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


SETUP = "setup_host_tools"
"""The function of a module that is given the registry."""
LISTED = "TOOLS"
"""The list of a module's tools."""

Setup = Callable[["HostToolRegistry"], Any]


async def load_host_tools_module(name: str, registry: HostToolRegistry) -> tuple[str, ...]:
    """Import a module and register its tools: all of them or, on an error, none.

    Takes what `TOOLS` lists or, without it, the module's own `@tool` functions; then calls
    `setup_host_tools(registry)`, plain or async. Returns the names of the tools.
    """
    origin = Origin(f"module {name}")
    try:
        return await install(import_named(name), registry, origin)
    except InvalidTool as error:
        # A name that is taken may come with the origin already.
        prefix = f"{origin}: "
        raise type(error)(prefix + str(error).removeprefix(prefix)) from error


async def install(target: object, registry: HostToolRegistry, origin: Origin) -> tuple[str, ...]:
    """Register what `target` brings: a module, a setup function, a tool or a list of tools."""
    with registry.all_or_nothing() as changes:
        registry.add_all([(tool, origin) for tool in _tools_of(target)])
        setup = _setup_of(target)
        if setup is not None:
            await _call(setup, registry)
        if not changes:
            raise InvalidTool(_no_tools(setup))
        return tuple(dict.fromkeys(change.key.name for change in changes))


def _tools_of(target: object) -> list[AnyTool]:
    if isinstance(target, ModuleType):
        listed = getattr(target, LISTED, None)
        return _decorated(target) if listed is None else _all_tools(LISTED, listed)
    if _is_tool(target):
        return [target]
    is_list = isinstance(target, list | tuple)
    return _all_tools("the list", cast("object", target)) if is_list else []


def _decorated(module: ModuleType) -> list[AnyTool]:
    members = cast("list[object]", list(vars(module).values()))
    # Not what it merely imports; and a tool with two names in the module is one tool.
    own = {id(each): each for each in members if _is_decorated(each, module.__name__)}
    return cast("list[AnyTool]", list(own.values()))


def _is_decorated(found: object, module: str) -> bool:
    return isinstance(found, FunctionTool) and found.__module__ == module


def _all_tools(owner: str, listed: object) -> list[AnyTool]:
    if not isinstance(listed, Iterable) or isinstance(listed, str):
        raise InvalidTool(f"{owner} must be a list of tools, not {type(listed).__name__}")
    found: list[AnyTool] = []
    for index, each in enumerate(cast("Iterable[object]", listed)):
        if not _is_tool(each):
            raise InvalidTool(f"{owner}[{index}] is {each!r}, which is not a tool")
        found.append(each)
    return found


def _is_tool(found: object) -> TypeGuard[AnyTool]:
    is_tool = isinstance(found, Tool | FunctionTool | Describes)
    return is_tool and not isinstance(found, type)


def _setup_of(target: object) -> Setup | None:
    found = getattr(target, SETUP, None) if isinstance(target, ModuleType) else target
    if found is None or _is_tool(found) or isinstance(found, list | tuple):
        return None
    if not callable(found) or isinstance(found, type):
        raise InvalidTool(
            f"{found!r} brings no tools; name a module, a function that takes the registry, a tool "
            "or a list of tools"
        )
    return found


async def _call(setup: Setup, registry: HostToolRegistry) -> None:
    try:
        pending = setup(registry)
        if inspect.isawaitable(pending):
            await pending
    except InvalidTool:
        raise
    except (Exception, SystemExit) as error:
        name = getattr(setup, "__name__", SETUP)
        raise InvalidTool(f"{name} failed: {describe(error)}") from error


def _no_tools(setup: Setup | None) -> str:
    if setup is None:
        return f"it brings no tools; decorate functions with @tool, or write {LISTED} or {SETUP}"
    return (
        f"{getattr(setup, '__name__', SETUP)} registered no tool; a plain function calls "
        "registry.add(tool), an async one awaits registry.register(tool)"
    )
