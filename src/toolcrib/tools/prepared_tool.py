"""A prepared tool: everything that can be computed before the first call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from toolcrib.errors import InvalidTool
from toolcrib.tools.identity import ToolRef, tool_digest
from toolcrib.tools.invoke import Invoke, bind
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.tools.params import PreparedParams
    from toolcrib.tools.redaction import Redactor


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
    identity: bytes
    """The beginning of every digest of a call: the tool and its version."""
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


def prepare(tool: object) -> PreparedTool:
    """Prepare anything that `as_tool` accepts. The cost is about that of building its schema, so a
    tool that is prepared already is returned unchanged.
    """
    if isinstance(tool, PreparedTool):
        return tool
    from pydantic_core import to_json

    from toolcrib.tools.params import build_params
    from toolcrib.tools.redaction import redactor_of

    ready = as_tool(tool)
    bound = bind(ready)
    params = build_params(ready, bound.signature)
    digest = tool_digest(ready.name, ready.description, params.schema)
    ref = ToolRef(ready.name, ready.source, ready.version, digest, ready.place)
    return PreparedTool(
        tool=ready,
        ref=ref,
        ref_json=to_json(ref),
        identity=f"{ref.id}\n{ref.version}\n{ref.digest}\n".encode(errors="surrogatepass"),
        params=params,
        parse=params.parse,
        dump=params.dump,
        invoke=bound.invoke,
        is_async=bound.is_async,
        wants_context=bound.wants_context,
        redactor=redactor_of(params.schema),
        declaration=_declare(ready, params.schema),
        check_output=_output_check(ready),
    )


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
            hint = "; put @tool above it" if callable(declared) else ""
            raise InvalidTool(f"{declared!r} is not a tool{hint}")


def _output_check(tool: Tool[Any, Any]) -> Callable[[Any], None] | None:
    from toolcrib.tools.json_schema import output_check

    return None if tool.output_schema is None else output_check(tool.name, tool.output_schema)


def _declare(tool: Tool[Any, Any], schema: dict[str, Any]) -> Declaration:
    note = f"\n\nDeprecated: {tool.deprecated}" if tool.deprecated else ""
    return Declaration(tool.name, tool.description + note, schema)
