"""Whether types can hold what a provider's calls tell, tried out with samples of all they tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

ITEM: Final = frozenset({"payload", "raw"})
"""Fields of these names get the provider's item as it came."""

_PLAIN: Final[Mapping[Any, Any]] = {
    str: "text",
    int: 1,
    float: 1.5,
    bool: True,
    bytes: b"data",
    NoneType: None,
}


def adapter_of(wanted: Any) -> TypeAdapter[Any] | None:
    """What makes a value of a type from what is told; None for types that only Python knows."""
    try:
        return _adapter(wanted)
    except (PydanticUserError, NameError, TypeError):
        return None


@lru_cache(maxsize=256)
def _adapter(wanted: Any) -> TypeAdapter[Any]:
    return TypeAdapter(wanted)


def told_names(told: type[Any]) -> set[str]:
    """What can be read off a value of this type: its fields, and what it works out from them."""
    listed = fields(told) if is_dataclass(told) else ()
    derived = (name for name, member in vars(told).items() if isinstance(member, property))
    return {*(each.name for each in listed), *derived}


def misfit(wanted: type[Any], told: type[Any]) -> str | None:
    """Which field cannot hold what is told under its name, and why; None when all can."""
    for name, hint in _hints(wanted).items():
        for sample in _samples_of(told, name):
            why = _refusal(hint, sample)
            if why is not None:
                return f"{name!r} must take {sample!r} and the like, but: {why}"
    return None


def arguments_of(told: type[Any]) -> Iterator[dict[str, Any]]:
    """Arguments as calls may have them: all that there are, with each sort of each."""
    sorts = {name: _present(_samples_of(told, name)) for name in _hints(told)}
    whole = {name: samples[0] for name, samples in sorts.items() if samples}
    for name, samples in sorts.items():
        for sample in samples:
            yield {**whole, name: sample}


def _present(samples: list[Any]) -> list[Any]:
    """An argument that is None is left out of a call."""
    return [sample for sample in samples if sample is not None]


def _refusal(hint: Any, sample: Any) -> str | None:
    adapter = adapter_of(hint)
    try:
        if adapter is not None:
            adapter.validate_python(sample)
    except ValidationError as error:
        return error.errors(include_url=False)[0]["msg"]
    return None


def _samples_of(told: type[Any], name: str) -> list[Any]:
    """Values of every sort that is told under a name; none where any may be."""
    if name in ITEM:
        return [{"type": "call"}]
    member = vars(told).get(name)
    if isinstance(member, property):
        return list(_samples(get_type_hints(member.fget).get("return", Any)))
    return list(_samples(_hints(told).get(name, Any)))


def _samples(hint: Any) -> Iterator[Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        for each in arguments:
            yield from _samples(each)
    elif origin is Literal:
        yield from arguments
    elif origin in (tuple, list):
        members = [each for each in arguments if each is not ...]
        yield origin(sample for each in members for sample in _samples(each))
    elif origin is not None and issubclass(origin, Mapping):
        yield {}
    elif hint in _PLAIN:
        yield _PLAIN[hint]
    elif is_dataclass(hint) and isinstance(hint, type):
        yield _filled(hint)


def _filled(made: type[Any]) -> Any:
    hints = _hints(made)
    required = [
        each.name
        for each in fields(made)
        if each.init and each.default is MISSING and each.default_factory is MISSING
    ]
    return made(**{name: next(_samples(hints[name]), None) for name in required})


def _hints(of: type[Any]) -> dict[str, Any]:
    """The types of the fields; of those that cannot be resolved, none."""
    try:
        hints = get_type_hints(of, include_extras=True)
    except NameError:
        return {}
    return {each.name: hints[each.name] for each in fields(of) if each.init}
