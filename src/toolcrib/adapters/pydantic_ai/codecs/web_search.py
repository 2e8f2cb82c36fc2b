"""Web search through pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.answer import citations
from toolcrib.adapters.codec import Invocation, RawItem
from toolcrib.adapters.json_fields import mappings_of, maybe_text, plain, text_of, texts_of
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.adapters.pydantic_ai.parts import messages_in, text_in
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.web_search import (
    KIND,
    DomainFilter,
    GeoHint,
    WebSearchAction,
    WebSearchConfig,
    WebSearchResult,
)

# Without these a provider keeps to itself what it found, or whence it quotes.
_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    # Newer models would search from code that nobody offered, and cite nothing.
    "anthropic": {"anthropic_web_tools_allowed_callers": ["direct"]},
    "openai-responses": {"openai_include_web_search_sources": True},
    "xai": {"xai_include_web_search_output": True, "xai_include_inline_citations": True},
}
# Here a search leaves no trace but the citations.
_UNTOLD: Final = frozenset({"openai-chat", "openrouter"})


class WebSearchCodec(NativeCodec[WebSearchConfig, WebSearchResult]):
    """Speaks for `web_search`. Text and citations belong to all calls together."""

    kind = KIND
    native = "web_search"
    params_type: ClassVar[type[Any] | None] = WebSearchAction
    result_type: ClassVar[type[Any] | None] = WebSearchResult

    def fields(self, config: WebSearchConfig) -> dict[str, Any]:
        found = domain_fields(config.domain_filter)
        if config.geo_hint is not None:
            found["user_location"] = _location(config.geo_hint)
        if not config.allow_live_access:
            found["external_web_access"] = False
        return found

    def settings(self, config: WebSearchConfig) -> dict[str, Any]:
        return dict(_SETTINGS.get(self.provider, {}))

    def read(
        self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[WebSearchConfig]
    ) -> Invocation:
        asked, failure = _asked(call), call.failure
        urls = tuple(dict.fromkeys(_looked_at(call)))
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=asked,
            value=None if failure else WebSearchResult(text="", source_urls=urls),
            message=failure or "\n".join([asked.render(), *urls]),
            success=failure is None,
            error=failure,
            raw=call.raw,
        )

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[WebSearchConfig]
    ) -> WebSearchResult | None:
        items = [plain(each) for each in response_items]
        calls, cited = self.hosted_calls(items, tool), citations(messages_in(items))
        if not calls and not (cited and self.provider in _UNTOLD):
            return None
        done = [call for call in calls if call.failure is None]
        looked_at = [url for call in done for url in _looked_at(call)]
        looked_at += [] if calls else [each.url for each in cited]
        return WebSearchResult(
            text=text_in(items),
            citations=tuple(cited),
            source_urls=tuple(dict.fromkeys(looked_at)),
        )


def domain_fields(domains: DomainFilter | None) -> dict[str, Any]:
    """The lists of a filter, as far as they hold anything."""
    lists = (domains.allowed, domains.blocked) if domains else ((), ())
    wire = dict(zip(("allowed_domains", "blocked_domains"), map(list, lists), strict=True))
    return {name: listed for name, listed in wire.items() if listed}


def _location(hint: GeoHint) -> dict[str, str]:
    wire = {
        "country": hint.country_code,
        "city": hint.city,
        "region": hint.region,
        "timezone": hint.timezone,
    }
    return {key: text for key, text in wire.items() if text is not None}


def _asked(call: HostedCall) -> WebSearchAction:
    asked = call.arguments
    queries = texts_of(asked, "queries") or [text_of(asked, "query")]
    url = maybe_text(asked, "url")
    is_visit = url is not None and not any(queries)
    return WebSearchAction(
        action=text_of(asked, "type") or ("open_page" if is_visit else "search"),
        queries=tuple(filter(None, queries)),
        url=url,
        pattern=maybe_text(asked, "pattern"),
    )


def _looked_at(call: HostedCall) -> Iterator[str]:
    """The addresses of a call, perhaps more than once. Providers list them in their own ways."""
    facts = call.facts
    listed = [
        *mappings_of(call.result_item, "content"),
        *mappings_of(facts, "sources"),
        *mappings_of(facts, "results"),
    ]
    found = [text_of(source, "url") or text_of(source, "uri") for source in listed]
    yield from filter(None, [*found, text_of(call.arguments, "url")])
