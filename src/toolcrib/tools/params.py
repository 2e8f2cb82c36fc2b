"""The arguments of one tool, prepared: the schema the model reads, the parser of what it sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError
from typing_extensions import TypedDict

from toolcrib.errors import InvalidTool
from toolcrib.tools.arguments import FunctionArguments
from toolcrib.tools.faults import explain
from toolcrib.tools.json_schema import input_parser
from toolcrib.tools.signature import Signature, read_signature
from toolcrib.tools.strict import StrictType, strict_type

if TYPE_CHECKING:
    from toolcrib.calls.failure import Fault
    from toolcrib.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class Params:
    """`parse` takes the arguments as JSON and gives what the handler takes.

    It raises ValueError when they do not fit, and `faults` says why. Nothing is coerced, and
    unknown keys are faults unless the user's own type allows them.
    """

    schema: dict[str, Any]
    parse: Callable[[bytes | str], Any]

    def faults(self, error: Exception) -> tuple[Fault, ...]:
        """What was wrong, for an error that `parse` raised."""
        return explain(error, self.schema)


def build_params(tool: Tool[Any, Any], signature: Signature | None = None) -> Params:
    """Prepare a tool's arguments from its JSON Schema, its function or its params type."""
    match tool.calling:
        case "input":
            return params_of_schema(tool.name, cast("Mapping[str, Any]", tool.json_schema))
        case "keywords":
            function = cast("Callable[..., Any]", tool.handler)
            return params_of_function(tool.name, function, signature)
        case "params":
            return params_of_type(tool.name, tool.params_type)


def params_of_schema(name: str, schema: Mapping[str, Any]) -> Params:
    """For a handler that takes plain JSON input, described by a JSON Schema."""
    return Params(schema=dict(schema), parse=input_parser(name, schema))


def params_of_type(name: str, params_type: Any) -> Params:
    """For a handler that takes one object: a dataclass, a pydantic model or a TypedDict."""
    if params_type is None:
        return _no_params(name)
    ready = _strict(name, params_type)
    if ready.schema.get("type") != "object":
        raise InvalidTool(
            f"tool {name!r}: {params_type!r} does not describe an object; "
            "put its value in a field of a dataclass"
        )
    return Params(schema=ready.schema, parse=ready.parse)


def params_of_function(
    name: str, function: Callable[..., Any], signature: Signature | None = None
) -> Params:
    """For a function that takes its arguments by name; `parse` gives them as a dict."""
    signature = signature or read_signature(function, name)
    arguments = FunctionArguments(function, signature, name)
    ready = _strict(name, arguments)
    arguments.describe(ready.schema)
    return Params(schema=ready.schema, parse=ready.parse)


def _no_params(name: str) -> Params:
    ready = _strict(name, _Nothing)

    def parse(raw: bytes | str) -> None:
        ready.parse(raw)

    return Params(schema=ready.schema, parse=parse)


class _Nothing(TypedDict):
    pass


def _strict(name: str, annotation: Any) -> StrictType:
    try:
        return strict_type(annotation)
    except (PydanticUserError, SchemaError, NameError) as error:
        raise InvalidTool(
            f"tool {name!r}: its arguments have a type that cannot be read from JSON: "
            f"{str(error).splitlines()[0]}"
        ) from error
