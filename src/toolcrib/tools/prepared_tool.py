"""A prepared tool: everything that can be computed before the first call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from toolcrib.errors import InvalidTool
from toolcrib.tools.identity import BindTo, ToolIdentity, ToolRef, identity_of
from toolcrib.tools.invoke import Invoke, bind
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.tools.argument_transform import ArgumentTransform
    from toolcrib.tools.params import PreparedParams
    from toolcrib.tools.redaction import Redactor

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a model reads about a tool."""

    name: str
    description: str
    parameters: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTool:
    """A tool in the form that the executor uses.

    `parse`, `dump` and `invoke` repeat those of `params` and the call of the handler, so that the
    hot path has no indirection.
    """

    tool: Tool[Any, Any]
    ref: ToolRef
    ref_json: bytes
    """The reference, encoded once for all records that name it."""
    identity: ToolIdentity
    """What decisions about calls are bound to."""
    digest_prefix: bytes
    """The beginning of every digest of a call: the tool and its digest."""
    params: PreparedParams
    parse: Callable[[bytes | str], Any]
    dump: Callable[[Any], bytes]
    invoke: Invoke
    is_async: bool
    wants_context: bool
    redactor: Redactor | None
    declaration: Declaration
    check_output: Callable[[Any], None] | None = None
    """Raises `ValueError` for a result, as plain JSON, that does not fit the output schema."""


@runtime_checkable
class Describes(Protocol):
    """Anything that describes a tool in a style of its own."""

    def to_tool(self) -> Tool[Any, Any]:
        """Return the tool."""
        ...


def prepare(tool: object, *, bind_to: BindTo = "code") -> PreparedTool:
    """Prepare anything that `as_tool` accepts. The cost is about that of building its schema, so a
    tool that is prepared already is returned unchanged.
    """
    if isinstance(tool, PreparedTool):
        if tool.identity.bind_to == bind_to:
            return tool
        return _bound_by(tool, identity_of(tool.tool, tool.params.schema, bind_to=bind_to))
    from toolcrib.tools.params import build_params
    from toolcrib.tools.redaction import redactor_of

    ready = as_tool(tool)
    bound = bind(ready)
    params = handler_params = build_params(ready, bound.signature)
    if ready.argument_transform is not None:
        params = _transformed(ready.name, ready.argument_transform, params)
    if ready.function_options is not None and ready.function_options.free_form is not None:
        from toolcrib.tools.function_options import free_form_argument

        free_form_argument(ready.name, params.schema)
    identity = identity_of(ready, params.schema, bind_to=bind_to)
    ref, ref_json, digest_prefix = _references(ready, identity)
    return PreparedTool(
        tool=ready,
        ref=ref,
        ref_json=ref_json,
        identity=identity,
        digest_prefix=digest_prefix,
        params=params,
        parse=params.parse,
        dump=params.dump,
        invoke=bound.invoke,
        is_async=bound.is_async,
        wants_context=bound.wants_context,
        redactor=redactor_of(_both(params.schema, handler_params.schema)),
        declaration=_declare(ready, params.schema),
        check_output=_output_check(ready),
    )


def _transformed(name: str, transform: ArgumentTransform, params: PreparedParams) -> PreparedParams:
    from toolcrib.tools.transformed_params import transformed_params

    return transformed_params(name, transform, params)


def _both(shown: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A schema with the arguments that callers give and those that the handler takes."""
    if shown is own:
        return own
    return {**own, "properties": {**shown.get("properties", {}), **own.get("properties", {})}}


def is_available(tool: Tool[Any, Any]) -> bool:
    """Whether a tool can be used now. One that cannot say so cannot be used."""
    if tool.available_when is None:
        return True
    try:
        return bool(tool.available_when())
    except Exception:
        logger.exception("tool %r could not say whether it is available", tool.name)
        return False


def registered_as(prepared: PreparedTool, registration: int) -> PreparedTool:
    """Return the tool with a digest of its own, for a handler that cannot be told from an earlier
    one by what is known of it: nobody can say that it does the same.
    """
    return _bound_by(prepared, prepared.identity.numbered(registration))


def _bound_by(prepared: PreparedTool, identity: ToolIdentity) -> PreparedTool:
    ref, ref_json, digest_prefix = _references(prepared.tool, identity)
    return replace(
        prepared, ref=ref, ref_json=ref_json, identity=identity, digest_prefix=digest_prefix
    )


def _references(tool: Tool[Any, Any], identity: ToolIdentity) -> tuple[ToolRef, bytes, bytes]:
    from pydantic_core import to_json

    ref = ToolRef(tool.name, tool.source, tool.version, identity.digest, tool.place)
    prefix = f"{ref.id}\n{ref.version}\n{ref.digest}\n".encode(errors="surrogatepass")
    return ref, to_json(ref), prefix


def as_tool(declared: object) -> Tool[Any, Any]:
    """Return the `Tool` behind a `Tool`, a function under `@tool`, or anything with `to_tool`: a
    `HostToolDefinition`, an instance of a `BaseTool` class.
    """
    from toolcrib.tools.decorator import FunctionTool

    match declared:
        case Tool():
            return declared  # pyright: ignore[reportUnknownVariableType]
        case FunctionTool():
            return declared.tool
        case Describes() if not isinstance(declared, type):
            return declared.to_tool()
        case _:
            raise InvalidTool(f"{declared!r} is not a tool{_advice(declared)}")


def _advice(declared: object) -> str:
    """What somebody who gives this as a tool should give instead."""
    if not callable(declared):
        return ""
    if not isinstance(declared, type):
        return "; put @tool above it"
    if isinstance(declared, Describes):
        return f"; it is a class of tools: give an instance, {declared.__name__}(...)"
    return "; it is a class: put @tool above a function, or write a BaseTool and give an instance"


def _output_check(tool: Tool[Any, Any]) -> Callable[[Any], None] | None:
    from toolcrib.tools.json_schema import cost_of, output_check

    if tool.output_schema is None:
        return None
    cost = cost_of(tool.name, tool.output_schema, "output_schema") if tool.is_foreign else None
    return output_check(tool.name, tool.output_schema, cost)


def _declare(tool: Tool[Any, Any], schema: dict[str, Any]) -> Declaration:
    note = f"\n\nDeprecated: {tool.deprecated}" if tool.deprecated else ""
    return Declaration(tool.name, tool.description + note, schema)
