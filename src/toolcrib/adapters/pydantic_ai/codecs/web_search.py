"""Web search through pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.answer import citations
from toolcrib.adapters.codec import Invocation, RawItem, outcome_of
from toolcrib.adapters.items import mappings_of, maybe_text, text_of, texts_of
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.adapters.pydantic_ai.parts import messages_in, text_in
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

# Without these settings a provider does not send its sources or citations.
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    # Else newer models search from code, which the prompt may not declare, and cite nothing.
    "anthropic": {"anthropic_web_tools_allowed_callers": ["direct"]},
    "openai-responses": {"openai_include_web_search_sources": True},
    "xai": {"xai_include_web_search_output": True, "xai_include_inline_citations": True},
}
# Providers that send no item for a search: only its citations show.
_CITATIONS_ONLY: Final = frozenset({"openai-chat", "openrouter"})


class WebSearchCodec(NativeCodec[WebSearchConfig, WebSearchResult]):
    """The codec of `web_search`. Text and citations belong to all calls together."""

    kind = KIND
    native = "web_search"
    params_type: ClassVar[type[Any] | None] = WebSearchAction
    result_type: ClassVar[type[Any] | None] = WebSearchResult

    def fields(self, config: WebSearchConfig) -> dict[str, Any]:
        fields = domain_fields(config.domain_filter)
        if config.geo_hint is not None:
            fields["user_location"] = _location(config.geo_hint)
        if not config.allow_live_access:
            fields["external_web_access"] = False
        if config.search_context_size is not None:
            fields["search_context_size"] = config.search_context_size
        if config.max_uses is not None:
            fields["max_uses"] = config.max_uses
        return fields

    def settings(self, config: WebSearchConfig) -> dict[str, Any]:
        return dict(_SETTINGS.get(self.provider, {}))

    def read(
        self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[WebSearchConfig]
    ) -> Invocation:
        action, failure = _action(call), call.failure
        urls = tuple(dict.fromkeys(_source_urls(call)))
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=action,
            value=WebSearchResult(
                text="",
                source_urls=() if failure else urls,
                status=call.status,
                error=failure,
            ),
            message=failure or "\n".join([action.render(), *urls]),
            success=failure is None,
            error=failure,
            raw=call.raw,
        )

    def combine(
        self,
        values: Sequence[WebSearchResult],
        items: Sequence[RawItem],
        tool: HostedTool[WebSearchConfig],
    ) -> WebSearchResult | None:
        pages = [page for page in citations(messages_in(items)) if isinstance(page, Citation)]
        if not values and not (pages and self.provider in _CITATIONS_ONLY):
            return None
        urls = [url for value in values for url in value.source_urls]
        urls += [] if values else [page.url for page in pages]
        return WebSearchResult(
            text=text_in(items),
            citations=tuple(pages),
            source_urls=tuple(dict.fromkeys(urls)),
            **outcome_of(values),
        )


def domain_fields(domains: DomainFilter | None) -> dict[str, Any]:
    """The lists of a filter that are not empty."""
    lists = (domains.allowed, domains.blocked) if domains else ((), ())
    fields = dict(zip(("allowed_domains", "blocked_domains"), map(list, lists), strict=True))
    return {name: domains for name, domains in fields.items() if domains}


def _location(hint: GeoHint) -> dict[str, str]:
    wire = {
        "country": hint.country_code,
        "city": hint.city,
        "region": hint.region,
        "timezone": hint.timezone,
    }
    return {key: text for key, text in wire.items() if text is not None}


def _action(call: HostedCall) -> WebSearchAction:
    arguments = call.arguments
    queries = texts_of(arguments, "queries") or [text_of(arguments, "query")]
    url = maybe_text(arguments, "url")
    is_visit = url is not None and not any(queries)
    return WebSearchAction(
        action=text_of(arguments, "type") or ("open_page" if is_visit else "search"),
        queries=tuple(filter(None, queries)),
        url=url,
        pattern=maybe_text(arguments, "pattern"),
    )


def _source_urls(call: HostedCall) -> Iterator[str]:
    """The addresses of a call, some maybe twice. Each provider lists them in another field."""
    facts = call.facts
    sources = [
        *mappings_of(call.result_item, "content"),
        *mappings_of(facts, "sources"),
        *mappings_of(facts, "results"),
    ]
    urls = [text_of(source, "url") or text_of(source, "uri") for source in sources]
    # A search of X has nothing but addresses.
    urls += texts_of(facts, "citations")
    yield from filter(None, [*urls, text_of(call.arguments, "url")])
