"""A server's tools as ours: named, checked, and those that are not fit with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from toolcrib.errors import InvalidTool
from toolcrib.mcp_client.older_schemas import up_to_date
from toolcrib.mcp_client.reaching import presentable
from toolcrib.tools.digest import tool_digest
from toolcrib.tools.prepared import prepare
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    import mcp_types

    from toolcrib.host_tools.mcp_servers import MountTerms

MOST_TOOLS: Final = 1_000
"""How many tools of one server are taken."""

_LONGEST_NAME: Final = 128

Handle: TypeAlias = "Callable[[str, str], Callable[..., Any]]"
"""Makes the handler of a tool, by its own name and the digest of what it promises."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server by the names that they have here, and those that are not fit.

    `promises` are digests of what they promise, by their own names.
    """

    tools: Mapping[str, Tool[Any, Any]] = field(default_factory=dict[str, Any])
    unfit: Mapping[str, str] = field(default_factory=dict[str, str])
    promises: Mapping[str, str] = field(default_factory=dict[str, str])


def listing_of(
    told: Sequence[mcp_types.Tool],
    rejected: Mapping[str, str],
    source: str,
    terms: MountTerms,
    handle: Handle,
) -> Listing:
    """Judge every tool on its own: one that is bad does not take the others with it. `rejected`
    are those that are bad already, by their own names.
    """
    tools: dict[str, Tool[Any, Any]] = {}
    unfit = {
        _shown(f"{terms.prefix}{name}"): presentable(reason)
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
            if len(tools) >= MOST_TOOLS:
                raise InvalidTool(f"of one server {MOST_TOOLS} tools are taken, and no more")
            tool, promise = _tool(name, each, source, terms, handle)
        except (ValueError, RecursionError) as error:
            unfit[_shown(name)] = presentable(str(error)) or "its schema is too deep"
        else:
            tools[name] = tool
            promises[each.name] = promise
    for missing in _missing(terms, told):
        unfit.setdefault(_shown(f"{terms.prefix}{missing}"), "the server has no such tool")
    return Listing(MappingProxyType(tools), MappingProxyType(unfit), MappingProxyType(promises))


def _missing(terms: MountTerms, told: Sequence[mcp_types.Tool]) -> list[str]:
    names = {each.name for each in told}
    return [name for name in terms.allowed_tools or () if terms.serves(name) and name not in names]


def _tool(
    name: str, told: mcp_types.Tool, source: str, terms: MountTerms, handle: Handle
) -> tuple[Tool[Any, Any], str]:
    schema = up_to_date(told.input_schema)
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
        output_schema=None if told.output_schema is None else up_to_date(told.output_schema),
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
    return presentable(name)[:_LONGEST_NAME] or "?"
