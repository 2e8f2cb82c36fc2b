"""What is known of a handler's code, as a digest.

It covers the handler's own byte code, the source of the module that defines it, and the fixed
values that it was made with: defaults, closure cells, arguments of a partial, attributes of an
object. State that can change (lists, connections) is not code; nor are modules that the handler's
module imports.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from hashlib import sha256
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final, cast

CREDENTIAL: Final = re.compile("auth|cookie|cred|key|pass|secret|token", re.IGNORECASE)
"""In the names of values that are secret: they are rotated, and are not put into any digest."""

_MAX_DEPTH: Final = 32
_MAX_SOURCES: Final = 4096
_LIBRARIES: Final = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(os.__file__))
"""Where this package and Python's library are. A new release of either is no change of a tool."""


@dataclass(frozen=True, slots=True)
class HandlerCode:
    """The code of a handler: where it is defined, its digest, and that of the fixed values that it
    was made with (`None` without any).

    `is_whole` is false when the handler has state, or code of another language, that the digest
    cannot cover: then a handler of the same digest may do something else.
    """

    name: str
    digest: str
    values: str | None
    is_whole: bool


def code_of(handler: object) -> HandlerCode:
    """Return what is known of the code of a function, a method, a partial or a callable object."""
    walk = _CodeWalk()
    walk.callable(handler, 0)
    values = walk.values.hexdigest() if walk.has_values else None
    return HandlerCode(_name(handler), walk.hasher.hexdigest(), values, walk.is_whole)


def _name(handler: object) -> str:
    if isinstance(handler, functools.partial):
        return _name(cast("functools.partial[Any]", handler).func)
    is_named = hasattr(handler, "__qualname__")
    named: Any = handler if is_named else type(handler)
    return f"{getattr(named, '__module__', None) or '?'}.{named.__qualname__}"


class _CodeWalk:
    """Feeds everything that makes up a handler into two digests, each thing once: its code, and the
    values that it was made with.
    """

    def __init__(self) -> None:
        self.hasher = sha256()
        self.values = sha256()
        self.has_values = False
        self.is_whole = True
        self._seen: dict[int, object] = {}

    def callable(self, target: object, depth: int) -> None:
        if depth > _MAX_DEPTH or self._was_seen(target):
            self._feed("again")
            return
        match target:
            case functools.partial():
                partial = cast("functools.partial[Any]", target)
                self._feed("partial")
                self.callable(partial.func, depth + 1)
                self._values(partial.args, depth)
                self._named(partial.keywords, depth)
            case MethodType():
                self._feed("method")
                self.callable(target.__func__, depth + 1)
                self._owner(target.__self__, depth)
            case FunctionType():
                self._function(target, depth)
            case type():
                self._class(target, depth)
            case BuiltinFunctionType() | WrapperDescriptorType():
                # Code of another language: its name is all that is known.
                self.is_whole = False
                self._feed("builtin", _name(target))
            case _:
                self._feed("object")
                self._owner(target, depth)

    def _was_seen(self, target: object) -> bool:
        if id(target) in self._seen:
            return True
        # Kept alive meanwhile, so that no other object can have its id.
        self._seen[id(target)] = target
        return False

    def _function(self, function: FunctionType, depth: int) -> None:
        # Not by its module: a script is `__main__` in one process and has a name in another.
        self._feed("function", function.__qualname__)
        self._values(function.__defaults__ or (), depth)
        self._named(function.__kwdefaults__ or {}, depth)
        if not _is_library(function.__globals__):
            self._code(function.__code__)
            source = _source_digest(function.__globals__)
            if source is not None:
                self._feed("source", source)
            else:
                self._globals(function, depth)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                content = cell.cell_contents
            except ValueError:
                # Not filled in yet: a function that names itself.
                continue
            self._value(content, depth + 1, name)

    def _globals(self, function: FunctionType, depth: int) -> None:
        """Without a source: the functions, classes and constants of the same module that the code
        names.
        """
        scope = function.__globals__
        for name in sorted(_names(function.__code__)):
            value = scope.get(name)
            is_own = getattr(value, "__module__", None) == scope.get("__name__")
            if isinstance(value, FunctionType | type) and is_own:
                self.callable(value, depth + 1)
            elif value is not None and _is_fixed(value) and not CREDENTIAL.search(name):
                self._feed(name)
                self._value(value, depth + 1, name)

    def _class(self, cls: type[Any], depth: int) -> None:
        self._feed("class", cls.__qualname__)
        for base in cls.__mro__:
            scope = _scope_of(base)
            if _is_library(scope):
                continue
            source = _source_digest(scope)
            if source is not None:
                self._feed("source", source)
            else:
                self._members(base, depth)

    def _members(self, cls: type[Any], depth: int) -> None:
        for name, member in sorted(vars(cls).items()):
            function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if isinstance(function, FunctionType):
                self._feed(name)
                self.callable(function, depth + 1)

    def _owner(self, owner: object, depth: int) -> None:
        """The object whose method is called: its class, and its attributes with a fixed value.

        One that is None yet, or holds an object, is often filled in when it is first used.
        """
        if isinstance(owner, type):
            self._class(cast("type[Any]", owner), depth)
            return
        if isinstance(owner, ModuleType):
            return
        self._class(type(owner), depth)
        for name, value in sorted(_attributes(owner).items()):
            if value is None or not (_is_fixed(value) or _is_code(value) or _has_code(value)):
                self.is_whole = self.is_whole and value is None
            else:
                self._feed(name)
                self._value(value, depth + 1, name)

    def _values(self, values: Iterable[Any], depth: int) -> None:
        for position, value in enumerate(values):
            self._value(value, depth + 1, str(position))

    def _named(self, values: Mapping[str, Any], depth: int) -> None:
        for name, value in sorted(values.items()):
            self._feed(name)
            self._value(value, depth + 1, name)

    def _value(self, value: object, depth: int, name: str) -> None:
        if CREDENTIAL.search(name) and isinstance(value, str | bytes):
            self.is_whole = False
            self._feed("secret")
        elif _is_code(value):
            self.callable(value, depth)
        elif value is not None and _is_fixed(value):
            self.has_values = True
            _feed(self.values, name, type(value).__qualname__, _spelt(value))
        elif _has_code(value):
            self._feed("tuple")
            self._values(cast("tuple[Any, ...]", value), depth)
        else:
            # Nothing yet, or something that changes: the two are often the same thing in time.
            self.is_whole = self.is_whole and value is None
            self._feed("state")

    def _code(self, code: CodeType) -> None:
        """The code object without file and lines: the same code at another path is the same."""
        self._feed(
            code.co_name,
            str((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)),
            str((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)),
        )
        self.hasher.update(code.co_code)
        self.hasher.update(getattr(code, "co_exceptiontable", b""))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self._feed(type(constant).__qualname__, _spelt(constant))

    def _feed(self, *texts: str) -> None:
        _feed(self.hasher, *texts)


def _feed(hasher: Any, *texts: str) -> None:
    for text in texts:
        data = text.encode(errors="surrogatepass")
        hasher.update(b"%d:" % len(data))
        hasher.update(data)


def _scope_of(cls: type[Any]) -> dict[str, Any]:
    """The namespace of the module that defines a class. Its functions know that best: a reload
    leaves the old class without a module.
    """
    for member in vars(cls).values():
        if isinstance(member, FunctionType) and member.__module__ == cls.__module__:
            return member.__globals__
    return getattr(sys.modules.get(cls.__module__), "__dict__", {})


def _is_library(scope: dict[str, Any]) -> bool:
    # By the file: a module of the application may have the name of one of Python's.
    file = scope.get("__file__")
    if not isinstance(file, str) or "site-packages" in file or "dist-packages" in file:
        return False
    return any(file.startswith(f"{folder}{os.sep}") for folder in _LIBRARIES)


def _is_code(value: object) -> bool:
    return isinstance(value, FunctionType | MethodType | functools.partial | type)


def _has_code(value: object) -> bool:
    """Whether functions are in a tuple: it cannot change, whatever else it holds."""
    return isinstance(value, tuple) and any(map(_is_code, cast("tuple[Any, ...]", value)))


def _is_fixed(value: object) -> bool:
    """Whether a value cannot change, all the way down, and has one spelling."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | PurePath):
        return True
    if isinstance(value, Enum) or value is Ellipsis:
        return True
    if isinstance(value, tuple | frozenset):
        return all(map(_is_fixed, cast("Iterable[object]", value)))
    if is_dataclass(value) and not isinstance(value, type):
        is_frozen = bool(type(value).__dataclass_params__.frozen)  # pyright: ignore
        return is_frozen and all(_is_fixed(getattr(value, field.name)) for field in fields(value))
    return False


def _spelt(value: object) -> str:
    """A fixed value as text, the same in every process."""
    match value:
        case frozenset():
            return f"{{{', '.join(sorted(map(_spelt, cast('frozenset[object]', value))))}}}"
        case tuple():
            return f"({', '.join(map(_spelt, cast('tuple[object, ...]', value)))})"
        case Enum():
            return f"{type(value).__qualname__}.{value.name}"
        case PurePath():
            return str(value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            # Not its repr, which may leave fields out.
            parts = [
                f"{field.name}={_spelt(getattr(value, field.name))}" for field in fields(value)
            ]
            return f"{type(value).__qualname__}({', '.join(parts)})"
        case int() if abs(value) >= 10**4000:
            # Python spells no such number in decimal.
            return hex(value)
        case _:
            return repr(value)


def _attributes(owner: object) -> dict[str, Any]:
    slots = [
        slot
        for cls in type(owner).__mro__
        for slot in _slot_names(vars(cls).get("__slots__", ()))
        if hasattr(owner, slot)
    ]
    return {
        **{slot: getattr(owner, slot) for slot in slots},
        **cast("dict[str, Any]", getattr(owner, "__dict__", {})),
    }


def _slot_names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _names(code: CodeType) -> set[str]:
    """The global names in a code object and in those within it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


@dataclass(frozen=True, slots=True)
class _LoadedSource:
    scope: dict[str, Any]
    spec: object
    digest: str | None


_sources: dict[str, _LoadedSource] = {}
"""By the name of the module. An entry is of the module as it was loaded: a module that is reloaded
gets another namespace, or another spec."""


def _source_digest(scope: dict[str, Any]) -> str | None:
    """The digest of the source that the module with this namespace was loaded from, if there is
    one. A file that is edited afterwards is not what runs, so it is read once.
    """
    name = scope.get("__name__")
    if not isinstance(name, str):
        return None
    loaded = _sources.get(name)
    spec = scope.get("__spec__")
    if loaded is None or loaded.scope is not scope or loaded.spec is not spec:
        source = _source_of(name, scope)
        digest = None if source is None else sha256(source).hexdigest()
        if len(_sources) >= _MAX_SOURCES:
            _sources.clear()
        loaded = _sources[name] = _LoadedSource(scope, spec, digest)
    return loaded.digest


def _source_of(name: str, scope: dict[str, Any]) -> bytes | None:
    file = scope.get("__file__")
    if isinstance(file, str) and file.endswith(".py"):
        try:
            with open(file, "rb") as source:
                return source.read()
        except OSError:
            pass
    read: Callable[[str], str | None] | None = getattr(scope.get("__loader__"), "get_source", None)
    try:
        text = None if read is None else read(name)
    except (ImportError, OSError):
        return None
    return None if text is None else text.encode(errors="surrogatepass")
