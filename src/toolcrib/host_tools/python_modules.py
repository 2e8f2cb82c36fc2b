"""Host tools from Python modules: importing and reloading the modules, and registering their tools,
resources and prompts.

A module's tools are those in its list `TOOLS`, or else its `@tool`, `@resource` and `@prompt`
functions, and those that its `setup_host_tools` registers.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from toolcrib.errors import InvalidTool, describe_error
from toolcrib.tools.decorator import FunctionTool
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.features.decorator import AnyFeature
    from toolcrib.host_tools.definition import AnyTool
    from toolcrib.host_tools.registrations import Origin
    from toolcrib.host_tools.registry import HostToolRegistry


_PROJECT_FOLDERS: Final[set[str]] = set()


def make_cwd_importable() -> None:
    """Make modules of the working directory importable, unless there is a project elsewhere.

    It is searched last, so that no file in it shadows an installed library. The modules of a
    project are in its own folder: an MCP client starts it in any folder that its user opens, and
    libraries look for packages that are not installed.
    """
    cwd = Path.cwd()
    projects = _PROJECT_FOLDERS.intersection(sys.path)
    if "" not in sys.path and (not projects or any(map(cwd.is_relative_to, projects))):
        _make_importable(cwd)


def make_folder_importable(folder: Path) -> None:
    """Make modules of a project's folder importable, after everything that already is."""
    _PROJECT_FOLDERS.add(str(folder))
    _make_importable(folder)


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()


def import_named(name: str) -> ModuleType:
    """Import a module by its full name. Raises `InvalidTool` for any error in it."""
    make_cwd_importable()
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise InvalidTool(f"cannot import {name!r}: {describe_error(error)}") from error


def find_callable(module: str, path: str) -> Callable[..., Any]:
    """The function at the dotted `path` of a module. Raises `InvalidTool`."""
    value: Any = import_named(module)
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            from toolcrib.approval.tool_names import did_you_mean

            hint = did_you_mean(part, [name for name in dir(value) if name[:1] != "_"])
            raise InvalidTool(f"{module!r} has no {path!r}{hint}") from None
    if not callable(value):
        raise InvalidTool(f"{path!r} of {module!r} is not callable; it is {type(value).__name__}")
    return value


def is_imported(name: str) -> bool:
    """Whether a module has been imported."""
    return name in sys.modules


def source_file(name: str) -> Path | None:
    """The source file of a module; None when it has none that can be found."""
    spec = _spec_of(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


@contextmanager
def reloaded(names: Iterable[str]) -> Generator[None]:
    """Reload modules from their sources; if that or the block fails, the old ones are restored.

    Each becomes a new module object: functions of the old one keep the globals they had.
    """
    from toolcrib.host_tools.registry import host_tool_registry

    old = {name: sys.modules[name] for name in names if name in sys.modules}
    try:
        with host_tool_registry.all_or_nothing():
            with host_tool_registry.replacing():
                for name in old:
                    _reload(name)
            yield
    except BaseException:
        for name, module in old.items():
            _install(name, module)
        raise


def _reload(name: str) -> None:
    spec, source = _spec_of(name), source_file(name)
    if spec is None or source is None:
        return
    module = importlib.util.module_from_spec(spec)
    _install(name, module)
    try:
        # Past the byte code cache: it misses an edit of the same second and size.
        code = compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise InvalidTool(f"cannot reload {name!r}: {describe_error(error)}") from error


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
        # The search imports the parent packages, which may be broken.
        return None


SETUP_FUNCTION = "setup_host_tools"
"""The function of a module that is called with the registry."""
TOOLS_VARIABLE = "TOOLS"
"""The list of a module's tools."""

Setup = Callable[["HostToolRegistry"], Any]


async def load_host_tools_module(
    name: str, registry: HostToolRegistry, *, needs_tools: bool = True
) -> tuple[str, ...]:
    """Import a module and register its tools: all of them or, on an error, none.

    Registers the tools of `TOOLS` or, without it, the module's own `@tool` functions; then calls
    `setup_host_tools(registry)`, plain or async. Returns the names of the tools. Without
    `needs_tools` there may be none.
    """
    from toolcrib.host_tools.registrations import Origin

    origin = Origin(f"module {name}")
    try:
        # What the module adds to this registry while it is imported counts as its tools.
        with registry.all_or_nothing() as edits:
            module = import_named(name)
            return await register_target(
                module, registry, origin, has_tools=bool(edits) or not needs_tools
            )
    except InvalidTool as error:
        # The error of a duplicate name starts with the origin already.
        prefix = f"{origin}: "
        raise type(error)(prefix + str(error).removeprefix(prefix)) from error


async def register_target(
    target: object, registry: HostToolRegistry, origin: Origin, *, has_tools: bool = False
) -> tuple[str, ...]:
    """Register the tools of a module, a setup function, a tool or a list of tools. There must be
    some, unless it has others already.
    """
    with registry.all_or_nothing() as edits:
        registry.add_all([(tool, origin) for tool in tools_of(target)])
        features = features_of(target)
        registry.add_features(features, origin=origin)
        setup = _setup_of(target)
        if setup is not None:
            from toolcrib.host_tools.registry import tools_from

            with tools_from(origin):
                await _call(setup, registry)
        if not edits and not features and not has_tools:
            raise InvalidTool(_no_tools(setup))
        return tuple(dict.fromkeys(edit.key.name for edit in edits))


def tools_of(target: object) -> list[AnyTool]:
    """The tools of a module, a tool itself, or a list of tools; a setup function has none yet."""
    if isinstance(target, ModuleType):
        listed = getattr(target, TOOLS_VARIABLE, None)
        return _decorated(target) if listed is None else _all_tools(TOOLS_VARIABLE, listed)
    if _is_tool(target):
        return [target]
    is_list = isinstance(target, list | tuple)
    return _all_tools("the list", cast("object", target)) if is_list else []


def features_of(target: object) -> list[AnyFeature]:
    """The resources and prompts of a module, of a list of tools, or the one that the target is."""
    listed = getattr(target, TOOLS_VARIABLE, None) if isinstance(target, ModuleType) else None
    if isinstance(target, ModuleType) and listed is None:
        members = cast("list[object]", list(vars(target).values()))
        own = {id(each): each for each in members if _is_feature(each)}
        return [each for each in own.values() if _module_of(each) == target.__name__]
    entries = target if listed is None else listed
    members = cast("Iterable[object]", entries) if isinstance(entries, Iterable) else [entries]
    return [member for member in members if _is_feature(member)]


def _is_feature(member: object) -> TypeGuard[AnyFeature]:
    # A module that has one has imported this: a command that lists tools need not.
    decorator: Any = sys.modules.get("toolcrib.features.decorator")
    return decorator is not None and decorator.is_feature(member)


def _module_of(feature: AnyFeature) -> str:
    from toolcrib.features.decorator import as_feature

    return as_feature(feature).function.__module__


def _decorated(module: ModuleType) -> list[AnyTool]:
    members = cast("list[object]", list(vars(module).values()))
    # Without imported tools; and a tool with two names in the module is one tool.
    own = {id(member): member for member in members if _is_decorated(member, module.__name__)}
    return cast("list[AnyTool]", list(own.values()))


def _is_decorated(member: object, module: str) -> bool:
    return isinstance(member, FunctionTool) and member.__module__ == module


def _all_tools(owner: str, listed: object) -> list[AnyTool]:
    if not isinstance(listed, Iterable) or isinstance(listed, str):
        raise InvalidTool(f"{owner} must be a list of tools, not {type(listed).__name__}")
    tools: list[AnyTool] = []
    for index, member in enumerate(cast("Iterable[object]", listed)):
        if _is_tool(member):
            tools.append(member)
        elif not _is_feature(member):
            raise InvalidTool(f"{owner}[{index}] is {member!r}, which is not a tool")
    return tools


def _is_tool(value: object) -> TypeGuard[AnyTool]:
    if isinstance(value, Tool | FunctionTool):
        return True
    from toolcrib.tools.prepared_tool import Describes

    return isinstance(value, Describes) and not isinstance(value, type)


def _setup_of(target: object) -> Setup | None:
    setup = getattr(target, SETUP_FUNCTION, None) if isinstance(target, ModuleType) else target
    if setup is None or _is_tool(setup) or _is_feature(setup) or isinstance(setup, list | tuple):
        return None
    if not callable(setup) or isinstance(setup, type):
        raise InvalidTool(
            f"{setup!r} has no tools; name a module, a function that takes the registry, a tool "
            "or a list of tools"
        )
    return setup


async def _call(setup: Setup, registry: HostToolRegistry) -> None:
    try:
        pending = setup(registry)
        if inspect.isawaitable(pending):
            await pending
    except InvalidTool:
        raise
    except (Exception, SystemExit) as error:
        name = getattr(setup, "__name__", SETUP_FUNCTION)
        raise InvalidTool(f"{name} failed: {describe_error(error)}") from error


def _no_tools(setup: Setup | None) -> str:
    if setup is None:
        return (
            f"it has no tools; decorate functions with @tool, or define {TOOLS_VARIABLE} or "
            f"{SETUP_FUNCTION}"
        )
    return (
        f"{getattr(setup, '__name__', SETUP_FUNCTION)} registered no tool; a plain function calls "
        "registry.add(tool), an async one awaits registry.register(tool)"
    )
