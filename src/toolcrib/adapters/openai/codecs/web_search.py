"""Web search on the Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.answer import citations
from toolcrib.adapters.codec import Codec, Invocation, RawItem, failure_of, outcome_of, status_of
from toolcrib.adapters.items import (
    json_object_of,
    mapping_of,
    mappings_of,
    maybe_text,
    text_of,
    texts_of,
)
from toolcrib.adapters.openai.items import message_text, messages_in
from toolcrib.adapters.support import check, options_of
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.web_search import (
    KIND,
    Citation,
    DomainFilter,
    GeoHint,
    WebSearchAction,
    WebSearchConfig,
    WebSearchResult,
)

PROVIDER: Final = "openai"


class OpenAIWebSearchCodec(Codec[WebSearchConfig, WebSearchResult]):
    """Speaks for `web_search`.

    The answer's text and citations belong to all calls together, so they are in `parse_output`;
    one call alone tells what it did and which addresses it looked at.
    """

    kind = KIND
    call_types: ClassVar[frozenset[str]] = frozenset({"web_search_call"})
    include: ClassVar[tuple[str, ...]] = ("web_search_call.action.sources",)
    params_type: ClassVar[type[Any] | None] = WebSearchAction
    result_type: ClassVar[type[Any] | None] = WebSearchResult

    def serialize(self, tool: HostedTool[WebSearchConfig]) -> dict[str, Any]:
        config = tool.config
        check(PROVIDER, KIND, options_of(config))
        entry: dict[str, Any] = {"type": "web_search"}
        if config.domain_filter and (filters := _filters(config.domain_filter)):
            entry["filters"] = filters
        if config.geo_hint is not None:
            entry["user_location"] = _location(config.geo_hint)
        if not config.allow_live_access:
            entry["external_web_access"] = False
        if config.search_context_size is not None:
            entry["search_context_size"] = config.search_context_size
        return entry

    def choice(self, tool: HostedTool[WebSearchConfig]) -> Any:
        # `web_search` is no `tool_choice` of its own, unlike the other hosted tools.
        return {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[WebSearchConfig]
    ) -> Invocation:
        action, failure = _search_action(item), failure_of(item)
        urls = tuple(dict.fromkeys(_looked_at(item)))
        return Invocation(
            item_id=text_of(item, "id"),
            kind=self.kind,
            params=action,
            value=WebSearchResult(
                text="",
                source_urls=() if failure else urls,
                status=status_of(item, failure),
                error=failure,
            ),
            message=failure or "\n".join([action.render(), *urls]),
            success=failure is None,
            error=failure,
            raw=item,
        )

    def combine(
        self,
        values: Sequence[WebSearchResult],
        items: Sequence[RawItem],
        tool: HostedTool[WebSearchConfig],
    ) -> WebSearchResult | None:
        if not values:
            return None
        cited = citations(messages_in(items))
        return WebSearchResult(
            text=message_text(items),
            citations=tuple(page for page in cited if isinstance(page, Citation)),
            source_urls=tuple(dict.fromkeys(url for value in values for url in value.source_urls)),
            **outcome_of(values),
        )


def _filters(domains: DomainFilter) -> dict[str, list[str]]:
    wire = {"allowed_domains": list(domains.allowed), "blocked_domains": list(domains.blocked)}
    return {key: listed for key, listed in wire.items() if listed}


def _location(hint: GeoHint) -> dict[str, str]:
    """An empty hint is sent too: without one the provider takes the user to be in the US."""
    wire = {
        "country": hint.country_code,
        "city": hint.city,
        "region": hint.region,
        "timezone": hint.timezone,
    }
    return {"type": "approximate"} | {key: text for key, text in wire.items() if text is not None}


def _action(item: RawItem) -> Mapping[str, Any]:
    """What the call did; some providers of this API tell it as a function call's arguments."""
    return mapping_of(item, "action") or json_object_of(item, "arguments")


def _search_action(item: RawItem) -> WebSearchAction:
    action = _action(item)
    # `query` is the older field and repeats one of `queries`.
    queries = texts_of(action, "queries") or [text_of(action, "query")]
    return WebSearchAction(
        action=text_of(action, "type") or "search",
        queries=tuple(query for query in queries if query),
        url=maybe_text(action, "url"),
        pattern=maybe_text(action, "pattern"),
    )


def _looked_at(item: RawItem) -> Iterator[str]:
    """The addresses of a call, perhaps more than once. Sources such as feeds have none."""
    action = _action(item)
    sources = [text_of(source, "url") for source in mappings_of(action, "sources")]
    yield from (url for url in [*sources, text_of(action, "url")] if url)
