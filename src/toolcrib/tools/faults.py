"""Faults in arguments: a JSON pointer and a sentence, never the value itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import NotJson, SchemaMismatch
from toolcrib.failures import Fault
from toolcrib.tools.secrets import ArgumentShape, shape_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

HIDDEN = "The value is not valid."
"""The message about a secret: anything more could reveal it."""

_UNKNOWN_KEY = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
# Their text comes from the user's own code, which may quote the value.
_USERS_WORDS = frozenset({"value_error", "assertion_error"})


def explain(error: Exception, schema: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Return every fault that `parse` found in arguments of this schema."""
    from pydantic_core import ValidationError

    if isinstance(error, SchemaMismatch):
        if error.reason is not None:
            return (Fault("", error.reason),)
        shape = shape_of(schema)
        return tuple(fault for details in error.errors for fault in _of_schema(details, shape))
    if isinstance(error, ValidationError):
        shape = shape_of(schema)
        errors = error.errors(include_url=False, include_input=False)
        return tuple(_of_pydantic(details, shape) for details in errors)
    if isinstance(error, NotJson):
        return (Fault("", f"Invalid JSON: {error}"),)
    # Some validator of the user's own types broke; its message may quote the value.
    return (Fault("", f"The arguments could not be checked ({type(error).__name__})"),)


def pointer_of(parts: Iterable[str | int]) -> str:
    """Return the JSON pointer made of these parts."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _of_pydantic(details: ErrorDetails, shape: ArgumentShape) -> Fault:
    kind = details["type"]
    parts, is_hidden, reached = _follow(details["loc"], shape, kind in _UNKNOWN_KEY)
    is_risky = kind in _USERS_WORDS and (reached is None or reached.has_secrets)
    if is_hidden or (is_risky and shape.has_secrets):
        return Fault(pointer_of(parts), HIDDEN)
    return Fault(pointer_of(parts), _message(details))


def _follow(
    location: tuple[str | int, ...], shape: ArgumentShape, has_unknown_key: bool
) -> tuple[list[str | int], bool, ArgumentShape | None]:
    """Return the place in the arguments, whether it is secret, and its shape where the schema has
    one.

    pydantic names the branches of a union in a location; they are no part of the arguments.
    """
    parts: list[str | int] = []
    reached: ArgumentShape | None = shape
    is_hidden = shape.is_secret
    for index, step in enumerate(location):
        if step == "[key]":
            continue
        inner = reached.member(step) if reached is not None else None
        is_unknown_key = has_unknown_key and index == len(location) - 1
        if inner is None and reached is not None and reached.is_union and not is_unknown_key:
            continue
        parts.append(step)
        reached = inner
        is_hidden = is_hidden or (inner is not None and inner.is_secret)
    return parts, is_hidden, reached


def _message(details: ErrorDetails) -> str:
    if details["type"] == "union_tag_invalid":
        context: dict[str, Any] = details.get("ctx", {})
        return f"{context.get('discriminator')} must be one of {context.get('expected_tags')}"
    return details["msg"]


def _of_schema(error: Any, shape: ArgumentShape) -> list[Fault]:
    path = cast("list[str | int]", error.instance_path)
    _, is_hidden, _ = _follow(tuple(path), shape, has_unknown_key=True)
    if is_hidden:
        return [Fault(pointer_of(path), HIDDEN)]
    match error.kind.name:
        case "required":
            return [Fault(pointer_of([*path, error.kind.property]), "Field required")]
        case "additionalProperties" | "unevaluatedProperties":
            unexpected = cast("list[str]", error.kind.unexpected)
            return [Fault(pointer_of([*path, key]), "Unexpected property") for key in unexpected]
        case _:
            message = cast("str", error.message)
            return [Fault(pointer_of(path), message[:1].upper() + message[1:])]
