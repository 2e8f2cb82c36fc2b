"""Operations on the tools of a runtime: listed with what their calls came to, one in full, and what
the policy would say about a call of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib.approval.tool_names import did_you_mean
from toolcrib.errors import Refused
from toolcrib.runtime.audit_operations import owner_seen, read_time
from toolcrib.runtime.catalog_messages import (
    Catalog,
    CatalogEntry,
    CatalogTool,
    ExampleFacts,
    ToolStatistics,
)
from toolcrib.runtime.policy_explanation import SOMEBODY, PolicyView, explain
from toolcrib.store.call_query import CallQuery
from toolcrib.store.store import ask_store
from toolcrib.tools.provider_tools import kind_of

if TYPE_CHECKING:
    from toolcrib.runtime.catalog import ListedTool
    from toolcrib.runtime.catalog_messages import (
        CatalogOrder,
        ExplainPolicy,
        ListCatalog,
        OneCatalogTool,
        PolicyExplanation,
    )
    from toolcrib.runtime.messages import Time
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.service import Service
    from toolcrib.store.store import Store
    from toolcrib.tools.tool import Tool

_UNUSED: Final = ToolStatistics()
_LONGEST_SUMMARY: Final = 300


async def list_catalog(service: Service, params: ListCatalog, who: Principal) -> Catalog:
    """The tools of the runtime, with what their calls came to."""
    catalog = service.catalog
    tools = await asyncio.to_thread(catalog.tools, who)
    statistics = await _statistics(catalog.store, params.since, params.until, who)
    matches = [tool for tool in tools if _is_wanted(tool, params)]
    matches.sort(key=lambda tool: tool.ref.id)
    key = _sort_key(params.order, statistics)
    known = [tool for tool in matches if key(tool) is not None]
    known.sort(key=key, reverse=params.descending)
    # What has no value of that column comes last in either direction.
    ordered = [*known, *(tool for tool in matches if key(tool) is None)]
    start = _start(ordered, params.cursor)
    page = ordered[start : start + params.limit]
    view = PolicyView(catalog.config, who)
    return Catalog(
        tools=[_entry(tool, view, who, statistics.get(tool.ref.id, _UNUSED)) for tool in page],
        total=len(ordered),
        sources=sorted({tool.ref.source for tool in tools}),
        of_everybody=who.sees_all,
        cursor=page[-1].ref.id if start + params.limit < len(ordered) else None,
    )


async def get_catalog_tool(service: Service, params: OneCatalogTool, who: Principal) -> CatalogTool:
    """One tool of the runtime in full."""
    catalog = service.catalog
    tools = await asyncio.to_thread(catalog.tools, who)
    tool = _find(tools, params.name, params.source)
    statistics = await _statistics(catalog.store, params.since, params.until, who, tool.ref.name)
    view = PolicyView(catalog.config, who)
    entry = _entry(tool, view, who, statistics.get(tool.ref.id, _UNUSED))
    namesakes = [
        other.ref.source for other in tools if other.ref.name == params.name and other is not tool
    ]
    prepared = tool.prepared
    if prepared is None:
        return CatalogTool(
            entry=entry,
            description="",
            parameters={},
            examples=[],
            uses=[],
            parts={},
            namesakes=namesakes,
        )
    declared = prepared.tool
    output_schema = declared.output_schema
    return CatalogTool(
        entry=entry,
        description=declared.description,
        parameters=dict(prepared.declaration.parameters),
        output_schema=None if output_schema is None else dict(output_schema),
        examples=_examples(declared),
        timeout=declared.timeout,
        uses=list(declared.uses),
        kind=kind_of(declared),
        parts=dict(prepared.identity.parts),
        namesakes=namesakes,
    )


async def explain_policy(
    service: Service, params: ExplainPolicy, who: Principal
) -> PolicyExplanation:
    """What would become of a call, and the part of every rule in it."""
    catalog = service.catalog
    tools = await asyncio.to_thread(catalog.tools, who)
    tool = _find(tools, params.tool, params.source)
    return await explain(catalog.config, catalog.store, tool, params, who)


def _find(tools: Sequence[ListedTool], name: str, source: str | None) -> ListedTool:
    """The tool of that name and source; without a source, the one that sessions get."""
    named = [tool for tool in tools if tool.ref.name == name and source in (None, tool.ref.source)]
    if not named:
        hint = did_you_mean(name, {tool.ref.name for tool in tools})
        place = "" if source is None else f" from {source[:128]!r}"
        raise Refused("not_found", f"the runtime has no tool {name[:128]!r}{place}{hint}")
    return next((tool for tool in named if tool.withheld is None), named[0])


def _is_wanted(tool: ListedTool, params: ListCatalog) -> bool:
    ref, prepared = tool.ref, tool.prepared
    words = (params.search or "").casefold().split()
    about = [ref.name, ref.source]
    if prepared is not None:
        about += [prepared.tool.category or "", prepared.tool.description]
    text = "\n".join(about).casefold()
    return (
        params.source in (None, ref.source)
        and params.place in (None, ref.place)
        and params.withheld in (None, tool.withheld is not None)
        and all(word in text for word in words)
    )


async def _statistics(
    store: Store, since: Time | None, until: Time | None, who: Principal, tool: str | None = None
) -> Mapping[str, ToolStatistics]:
    """What the calls of all tools came to, by the id of the tool, in one query: of one's own
    sessions, or for auditors of all.
    """
    query = CallQuery(
        since=read_time(since, "since"),
        until=read_time(until, "until"),
        owner=owner_seen(None, who),
        tool=tool,
    )
    sums = await ask_store(store, store.call_sums, query, "tool_id")
    return {
        each.key: ToolStatistics(
            calls=each.calls,
            failures=each.failures,
            p50_seconds=each.p50_seconds,
            p95_seconds=each.p95_seconds,
            waited_seconds=each.waited_seconds,
            last_used_at=each.last_at,
            cost=each.cost,
            unpriced=each.unpriced,
        )
        for each in sums
        if each.key is not None
    }


def _sort_key(
    order: CatalogOrder, statistics: Mapping[str, ToolStatistics]
) -> Callable[[ListedTool], Any]:
    def of(tool: ListedTool) -> ToolStatistics:
        return statistics.get(tool.ref.id, _UNUSED)

    keys: dict[CatalogOrder, Callable[[ListedTool], Any]] = {
        "name": lambda tool: (tool.ref.name, tool.ref.source),
        "source": lambda tool: (tool.ref.source, tool.ref.name),
        "calls": lambda tool: of(tool).calls,
        "failures": lambda tool: of(tool).failures,
        "p50": lambda tool: of(tool).p50_seconds,
        "p95": lambda tool: of(tool).p95_seconds,
        "last_used": lambda tool: of(tool).last_used_at,
        "cost": lambda tool: of(tool).cost,
    }
    return keys[order]


def _start(ordered: Sequence[ListedTool], cursor: str | None) -> int:
    if cursor is None:
        return 0
    for number, tool in enumerate(ordered, start=1):
        if tool.ref.id == cursor:
            return number
    raise Refused("invalid", "unknown cursor; list again without one")


def _entry(
    tool: ListedTool, view: PolicyView, who: Principal, statistics: ToolStatistics
) -> CatalogEntry:
    ref, prepared = tool.ref, tool.prepared
    declared = None if prepared is None else prepared.tool
    is_hosted = ref.place == "provider"
    own = view.subject(tool, who.caller(is_model=is_hosted))
    others = view.subject(tool, SOMEBODY)
    return CatalogEntry(
        id=ref.id,
        name=ref.name,
        source=ref.source,
        place=ref.place,
        version=ref.version,
        digest=ref.digest,
        summary="" if declared is None else _summary(declared.description),
        category=None if declared is None else declared.category,
        is_read_only=declared is not None and declared.is_read_only,
        is_idempotent=declared is not None and declared.is_idempotent,
        requires_approval=declared is not None and declared.requires_approval,
        deprecated=None if declared is None else declared.deprecated,
        withheld=tool.withheld,
        is_callable=tool.is_callable,
        rule=view.in_force(view.verdict(tool, own)),
        rule_for_others=view.in_force(view.verdict(tool, others)),
        depends_on=view.depends_on(own),
        visibility=tool.visibility,
        statistics=statistics,
    )


def _summary(description: str) -> str:
    first = description.strip().partition("\n")[0].strip()
    return first if len(first) <= _LONGEST_SUMMARY else f"{first[: _LONGEST_SUMMARY - 1]}…"


def _examples(tool: Tool[Any, Any]) -> list[ExampleFacts]:
    return [
        ExampleFacts(
            description=example.description,
            arguments=_as_json(example.input),
            result=_as_json(example.output),
        )
        for example in tool.examples
    ]


def _as_json(value: object) -> Any:
    try:
        return from_json(to_json(value))
    except PydanticSerializationError:
        return None
