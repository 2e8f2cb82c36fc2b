"""A server's tools as ours: named, checked, and those that are not fit with the reason.

Schemas of older JSON Schema drafts, as draft 2020-12 writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from toolcrib.errors import InvalidTool
from toolcrib.mcp_client.config import printable_line
from toolcrib.tools.identity import tool_digest
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    import mcp_types

    from toolcrib.mcp_client.config import MountTerms


_OLDER: Final = (
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
)
_DEEPEST: Final = 100

# Below these stand schemas by name, and a name may be any word.
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
# Below these stand values, whatever they look like.
_VALUES: Final = frozenset({"const", "default", "enum", "examples"})


def as_draft_2020_12(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema in today's words, if it says that it is of an older draft. Raises ValueError
    when it is too deep to look at.
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


def _schema(found: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("its schema is too deep")
    if not isinstance(found, dict):
        return found
    node = cast("dict[str, Any]", found)
    items = node.get("items")
    made = {key: _member(key, value, depth + 1) for key, value in node.items()}
    if isinstance(items, list):
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    return _without_dependencies(made)


def _member(key: str, value: Any, depth: int) -> Any:
    if key in _VALUES:
        return value
    if isinstance(value, list):
        return [_schema(each, depth) for each in cast("list[Any]", value)]
    if key in (*_NAMED, "dependencies") and isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: _schema(each, depth) for name, each in named.items()}
    return _schema(value, depth)


def _without_dependencies(node: dict[str, Any]) -> dict[str, Any]:
    found = node.pop("dependencies", None)
    if isinstance(found, dict):
        for name, needed in cast("dict[str, Any]", found).items():
            keyword = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
            node.setdefault(keyword, {})[name] = needed
    return node


MAX_TOOLS: Final = 1_000
"""How many tools of one server are taken."""

_LONGEST_NAME: Final = 128

HandlerFactory: TypeAlias = "Callable[[str, str], Callable[..., Any]]"
"""Makes the handler of a tool, by its own name and the digest of what it promises."""


@dataclass(frozen=True, slots=True)
class ServerTools:
    """The tools of a server by the names that they have here, and those that are not fit.

    `promises` are digests of what they promise, by their own names.
    """

    tools: Mapping[str, Tool[Any, Any]] = field(default_factory=dict[str, Any])
    unfit: Mapping[str, str] = field(default_factory=dict[str, str])
    promises: Mapping[str, str] = field(default_factory=dict[str, str])


def server_tools(
    told: Sequence[mcp_types.Tool],
    rejected: Mapping[str, str],
    source: str,
    terms: MountTerms,
    handle: HandlerFactory,
) -> ServerTools:
    """Judge every tool on its own: one that is bad does not take the others with it. `rejected`
    are those that are bad already, by their own names.
    """
    tools: dict[str, Tool[Any, Any]] = {}
    unfit = {
        _shown(f"{terms.prefix}{name}"): printable_line(reason)
        for name, reason in rejected.items()
        if terms.serves(name)
    }
    promises: dict[str, str] = {}
    for each in told:
        if not terms.serves(each.name):
            continue
        name = f"{terms.prefix}{each.name}"
        try:
            if each.name in promises:
                raise InvalidTool("the server has two tools of that name; the first is served")
            if len(tools) >= MAX_TOOLS:
                raise InvalidTool(f"of one server {MAX_TOOLS} tools are taken, and no more")
            tool, promise = _tool(name, each, source, terms, handle)
        except (ValueError, RecursionError) as error:
            unfit[_shown(name)] = printable_line(str(error)) or "its schema is too deep"
        else:
            tools[name] = tool
            promises[each.name] = promise
    for missing in _missing(terms, told):
        unfit.setdefault(_shown(f"{terms.prefix}{missing}"), "the server has no such tool")
    return ServerTools(MappingProxyType(tools), MappingProxyType(unfit), MappingProxyType(promises))


def _missing(terms: MountTerms, told: Sequence[mcp_types.Tool]) -> list[str]:
    names = {each.name for each in told}
    return [name for name in terms.allowed_tools or () if terms.serves(name) and name not in names]


def _tool(
    name: str, told: mcp_types.Tool, source: str, terms: MountTerms, handle: HandlerFactory
) -> tuple[Tool[Any, Any], str]:
    schema = as_draft_2020_12(told.input_schema)
    description = _description(told)
    promise = tool_digest(name, description, schema)
    # What a server says of its own tools, that they only read or may run twice, is not believed:
    # a policy would let them run, and a crash would repeat them.
    tool = Tool[Any, Any](
        name=name,
        description=description,
        handler=handle(told.name, promise),
        calling="input",
        json_schema=schema,
        output_schema=None if told.output_schema is None else as_draft_2020_12(told.output_schema),
        source=source,
        requires_approval=terms.approval == "always",
        timeout=terms.timeout,
    )
    prepare(tool)
    return tool, promise


def _description(told: mcp_types.Tool) -> str:
    text = (told.description or told.title or "").replace("\r\n", "\n").strip()
    return text or f"The tool {told.name}; its server does not say what it does."


def _shown(name: str) -> str:
    return printable_line(name)[:_LONGEST_NAME] or "?"
