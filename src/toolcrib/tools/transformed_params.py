"""The params of a tool whose callers give other arguments than its handler takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pydantic_core import from_json, to_json

from toolcrib.errors import InvalidTool, NotJson, SchemaMismatch
from toolcrib.failures import Fault
from toolcrib.tools.argument_names import ArgumentNames
from toolcrib.tools.argument_transform import ArgumentTransform
from toolcrib.tools.json_schema import cost_of, input_parser
from toolcrib.tools.params import PreparedParams

_MISSING: Final = object()


def transformed_params(
    tool: str, transform: ArgumentTransform, inner: PreparedParams
) -> PreparedParams:
    """The params of callers, for a handler that takes the `inner` ones."""
    shown = transform.shown_schema(tool, inner.schema)
    _check_fixed(tool, transform, inner)
    names = inner.names or ArgumentNames(inner.schema, {})
    spellings = dict(names.spellings)
    for name, shown_name in transform.renamed.items():
        spellings[shown_name] = (*spellings.get(shown_name, ()), name)
    return TransformedParams(
        schema=shown,
        parse=_parser(transform, inner),
        dump=inner.dump,
        names=ArgumentNames(inner.schema, spellings),
        cost=inner.cost,
        inner=inner,
        transform=transform,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformedParams(PreparedParams):
    """Params whose arguments are not those of the handler."""

    inner: PreparedParams
    transform: ArgumentTransform

    @property
    def handler_schema(self) -> dict[str, Any]:
        """The schema of the arguments that are decided on and recorded."""
        return self.inner.schema

    def faults(self, error: Exception) -> tuple[Fault, ...]:
        """Return the faults under the names that callers use."""
        return tuple(self._renamed(fault) for fault in self.inner.faults(error))

    def _renamed(self, fault: Fault) -> Fault:
        pointer, message = fault.pointer, fault.message
        for name, shown in self.transform.renamed.items():
            if pointer == f"/{name}" or pointer.startswith(f"/{name}/"):
                pointer = f"/{shown}{pointer[len(name) + 1 :]}"
            message = message.replace(f'"{name}"', f'"{shown}"')
        return replace(fault, pointer=pointer, message=message)


def _parser(transform: ArgumentTransform, inner: PreparedParams) -> Callable[[bytes | str], Any]:
    own_names = {shown: name for name, shown in transform.renamed.items()}
    properties = cast("dict[str, Any]", inner.schema.get("properties", {}))
    # Frozen arguments are parsed again: they have the unseen ones, with exactly these values.
    kept = {name: _default(properties.get(name)) for name in transform.hidden}
    kept.update(transform.fixed)

    def parse(raw: bytes | str) -> Any:
        try:
            given = from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            raise NotJson(str(error)) from None
        if not isinstance(given, dict):
            return inner.parse(raw)
        arguments: dict[str, Any] = {}
        for key, value in cast("dict[str, Any]", given).items():
            name = own_names.get(key, key)
            if name in arguments or (key in kept and not _is_same(kept[key], value)):
                raise SchemaMismatch((), f"There is no argument {key!r}.")
            if key not in kept:
                arguments[name] = value
        arguments.update(transform.fixed)
        if not transform.secrets:
            return inner.parse(to_json(arguments))
        params = inner.parse(to_json({**arguments, **transform.secrets}))
        return {**params, **{name: transform.fixed[name] for name in transform.secrets}}

    return parse


def _is_same(one: Any, other: Any) -> bool:
    # In Python True is 1; in JSON it is not.
    return one is not _MISSING and to_json(one) == to_json(other)


def _default(schema: Any) -> Any:
    members = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    return members.get("default", _MISSING)


def _check_fixed(tool: str, transform: ArgumentTransform, inner: PreparedParams) -> None:
    """Raise `InvalidTool` for a fixed value that the handler's schema does not take."""
    values = {**transform.fixed, **transform.secrets}
    properties = cast("dict[str, Any]", inner.schema.get("properties", {}))
    shared = {key: inner.schema[key] for key in ("$defs", "definitions") if key in inner.schema}
    for name, value in values.items():
        schema = {"type": "object", "properties": {name: properties[name]}, **shared}
        cost = None if inner.cost is None else cost_of(tool, schema)
        try:
            input_parser(tool, schema, cost)(to_json({name: value}))
        except ValueError:
            raise InvalidTool(
                f"tool {tool!r}: the fixed value of the argument {name!r} does not fit its schema"
            ) from None
