"""How an MCP tool becomes a `Tool`: named, checked, its schema translated to draft 2020-12.

A tool that cannot be served is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic_core import to_json

from toolcrib.errors import InvalidTool
from toolcrib.mcp_client.config import printable_line
from toolcrib.mcp_client.pins import as_pinned
from toolcrib.mcp_client.tool_terms import under_terms
from toolcrib.tools.identity import canonical_json
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.rules import check_free
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    import mcp_types

    from toolcrib.mcp_client.config import MountTerms
    from toolcrib.mcp_client.pins import PinCheck, PinDeviation
    from toolcrib.mcp_client.tool_terms import ToolTerms
    from toolcrib.tools.argument_transform import ArgumentTransform


_OLDER: Final = (
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
)
_MAX_DEPTH: Final = 100

# The values of these keywords map names to schemas, and a name may be any word.
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
# The values of these keywords are data, even if they look like schemas.
_VALUES: Final = frozenset({"const", "default", "enum", "examples"})


def as_draft_2020_12(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema translated to draft 2020-12, if it declares an older draft. Raises ValueError
    when it is nested too deep.
    """
    draft = schema.get("$schema")
    if not isinstance(draft, str):
        return dict(schema)
    if (
        draft.replace("https://json-schema.org/draft-", "http://json-schema.org/draft-").rstrip("#")
        not in _OLDER
    ):
        return dict(schema)
    return _schema({key: value for key, value in schema.items() if key != "$schema"}, 0)


def _schema(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("its schema is nested too deep")
    if not isinstance(value, dict):
        return value
    node = cast("dict[str, Any]", value)
    items = node.get("items")
    translated = {key: _member(key, member, depth + 1) for key, member in node.items()}
    if isinstance(items, list):
        translated["prefixItems"] = translated.pop("items")
        if "additionalItems" in translated:
            translated["items"] = translated.pop("additionalItems")
    return _without_dependencies(translated)


def _member(key: str, value: Any, depth: int) -> Any:
    if key in _VALUES:
        return value
    if isinstance(value, list):
        return [_schema(item, depth) for item in cast("list[Any]", value)]
    if key in (*_NAMED, "dependencies") and isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: _schema(schema, depth) for name, schema in named.items()}
    return _schema(value, depth)


def _without_dependencies(node: dict[str, Any]) -> dict[str, Any]:
    dependencies = node.pop("dependencies", None)
    if isinstance(dependencies, dict):
        for name, needed in cast("dict[str, Any]", dependencies).items():
            keyword = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
            node.setdefault(keyword, {})[name] = needed
    return node


MAX_TOOLS: Final = 1_000
"""The maximum number of tools of one server."""

MAX_SCHEMAS_BYTES: Final = 4_000_000
"""The maximum size of all schemas of one server together."""

_MAX_NAME_LENGTH: Final = 128

HandlerFactory: TypeAlias = "Callable[[str, str], Callable[..., Any]]"
"""Makes the handler of a tool from its own name and the digest of its declaration."""


@dataclass(frozen=True, slots=True)
class RemoteTools:
    """The tools of a server by the names that they have here.

    `invalid` has the reason for each tool that is not served. `digests` are the digests of the
    declarations, by the server's own names; `listed` are the tools that the terms allow, as the
    server declares them.
    """

    served: Mapping[str, Tool[Any, Any]] = field(default_factory=dict[str, Any])
    invalid: Mapping[str, str] = field(default_factory=dict[str, str])
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    listed: Sequence[mcp_types.Tool] = field(default=(), compare=False, repr=False)


def remote_tools(
    listed: Sequence[mcp_types.Tool],
    rejected: Mapping[str, str],
    source: str,
    terms: MountTerms,
    make_handler: HandlerFactory,
    transforms: Mapping[str, ArgumentTransform] = MappingProxyType({}),
    pin_check: PinCheck | None = None,
) -> RemoteTools:
    """Make a `Tool` of every listed tool that the terms allow. One that is invalid does not affect
    the others; `rejected` are those known to be invalid already, by their own names, and
    `transforms` the argument transforms of the terms, filled in.
    """
    tools: dict[str, Tool[Any, Any]] = {}
    invalid = {
        _printable_name(terms.name_of(name)): printable_line(reason)
        for name, reason in rejected.items()
        if terms.serves(name)
    }
    digests: dict[str, str] = {}
    size = 0
    for mcp_tool in listed:
        if not terms.serves(mcp_tool.name):
            continue
        name, own_terms = terms.name_of(mcp_tool.name), terms.tools.get(mcp_tool.name)
        try:
            if mcp_tool.name in digests or name in tools:
                raise InvalidTool("the server has two tools of that name; the first is served")
            if len(tools) >= MAX_TOOLS:
                raise InvalidTool(f"at most {MAX_TOOLS} tools of one server are served")
            size += len(to_json((mcp_tool.input_schema, mcp_tool.output_schema)))
            if size > MAX_SCHEMAS_BYTES:
                raise InvalidTool(f"the server's schemas have over {MAX_SCHEMAS_BYTES} bytes")
            tool, digest = tool_from_mcp(
                name, _worded(mcp_tool, own_terms, pin_check), source, terms, make_handler
            )
            tool = under_terms(tool, own_terms, transforms.get(mcp_tool.name))
            deviation = None if pin_check is None else pin_check.deviation(mcp_tool)
            if deviation is not None:
                tool, digest = _asked_about(tool, deviation), deviation.digest
        except (ValueError, RecursionError) as error:
            invalid[_printable_name(name)] = (
                printable_line(str(error)) or "its schema is nested too deep"
            )
        else:
            tools[name] = tool
            digests[mcp_tool.name] = digest
    for missing in _missing(terms, listed):
        invalid.setdefault(_printable_name(terms.name_of(missing)), "the server has no such tool")
    return RemoteTools(
        MappingProxyType(tools),
        MappingProxyType(invalid),
        MappingProxyType(digests),
        [tool for tool in listed if terms.serves(tool.name)],
    )


def _missing(terms: MountTerms, listed: Sequence[mcp_types.Tool]) -> list[str]:
    names = {tool.name for tool in listed}
    named = dict.fromkeys((*(terms.allowed_tools or ()), *terms.tools))
    return [name for name in named if terms.serves(name) and name not in names]


def _asked_about(tool: Tool[Any, Any], deviation: PinDeviation) -> Tool[Any, Any]:
    """The tool, whose every call is approved by somebody who sees what changed."""
    handler = replace(cast("Any", tool.handler), digest=deviation.digest, deviation=deviation)
    return replace(tool, handler=handler, requires_approval=True, approval_metadata=deviation)


def _worded(
    mcp_tool: mcp_types.Tool, terms: ToolTerms | None, pin_check: PinCheck | None
) -> mcp_types.Tool:
    """The tool in the words of its pin, if it has one, and of its terms."""
    if pin_check is not None and pin_check.deviation(mcp_tool) is not None:
        mcp_tool = as_pinned(mcp_tool, pin_check.pins.tools[mcp_tool.name])
    words = {} if terms is None else {"title": terms.title, "description": terms.description}
    chosen = {key: text for key, text in words.items() if text}
    return mcp_tool.model_copy(update=chosen) if chosen else mcp_tool


def tool_from_mcp(
    name: str,
    mcp_tool: mcp_types.Tool,
    source: str,
    terms: MountTerms,
    make_handler: HandlerFactory,
) -> tuple[Tool[Any, Any], str]:
    """A server's tool as a `Tool`, and the digest of its declaration. Raises `InvalidTool`."""
    check_free(name)
    schema = as_draft_2020_12(mcp_tool.input_schema)
    description = _description(mcp_tool)
    digest = sha256(canonical_json([name, description, schema, mcp_tool.output_schema])).hexdigest()
    # A server's hints about its own tools (read-only, idempotent) are ignored: a policy would let
    # such tools run, and a crash would repeat them.
    tool = Tool[Any, Any](
        name=name,
        description=description,
        handler=make_handler(mcp_tool.name, digest),
        calling="input",
        json_schema=schema,
        output_schema=None
        if mcp_tool.output_schema is None
        else as_draft_2020_12(mcp_tool.output_schema),
        is_foreign=True,
        source=source,
        requires_approval=terms.approval == "always",
        timeout=terms.timeout,
        visible_to=terms.visible_to,
    )
    prepare(tool)
    return tool, digest


def _description(mcp_tool: mcp_types.Tool) -> str:
    text = (mcp_tool.description or mcp_tool.title or "").replace("\r\n", "\n").strip()
    return text or f"The tool {mcp_tool.name}; its server gives no description."


def _printable_name(name: str) -> str:
    return printable_line(name)[:_MAX_NAME_LENGTH] or "?"
