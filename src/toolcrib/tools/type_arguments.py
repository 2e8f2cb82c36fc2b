"""Type arguments of generic classes at run time.

`Tool[Params, Result](...)` passes its type arguments to the constructor; `class Task(Section[P])`
fixes them for a derived class.
"""

from __future__ import annotations

import types
from types import NoneType
from typing import Any, ClassVar, TypeVar, cast, get_args, get_origin

# Any and a type variable say nothing at runtime, so they must not override a field.
_SILENT = (Any,)


class TypeArguments:
    """Base of generic frozen dataclasses; `_type_fields` names a field for each type argument, in
    order.

    The base is needed even without such fields: the alias of `typing` sets an attribute on each new
    object, which raises a `TypeError` for a frozen and slotted dataclass.
    """

    __slots__ = ()
    _type_fields: ClassVar[tuple[str, ...]] = ()

    def __class_getitem__(cls, arguments: Any) -> Any:
        # The next class in line is Generic, which checks the number of arguments.
        generic: Any = super()
        return _Alias(cls, generic.__class_getitem__(arguments).__args__)


class _Alias(types.GenericAlias):
    """A class with type arguments. Calling it fills the fields named for them."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        origin = cast("type[TypeArguments]", self.__origin__)
        for name, argument in zip(origin._type_fields, self.__args__, strict=False):  # pyright: ignore[reportPrivateUsage]
            if not _is_silent(argument):
                kwargs.setdefault(name, None if argument is type(None) else argument)
        return origin(*args, **kwargs)

    def __getitem__(self, arguments: Any) -> _Alias:
        filled = super().__getitem__(arguments)
        return _Alias(cast("type[Any]", filled.__origin__), filled.__args__)


def _is_silent(argument: Any) -> bool:
    return argument in _SILENT or isinstance(argument, TypeVar)


_SAYS_NOTHING = (Any, NoneType)


def type_argument(derived: type[Any], base: type[Any]) -> Any:
    """Return the type argument that `derived`, or its nearest ancestor, passed to `base`, or
    `None`.
    """
    for cls in derived.__mro__:
        for alias in cls.__dict__.get("__orig_bases__", ()):
            origin, arguments = get_origin(alias), get_args(alias)
            if not (isinstance(origin, type) and issubclass(origin, base) and arguments):
                continue
            if not isinstance(arguments[0], TypeVar) and arguments[0] not in _SAYS_NOTHING:
                return arguments[0]
    return None
