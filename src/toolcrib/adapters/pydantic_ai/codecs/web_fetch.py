"""Web fetch through pydantic-ai."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.answer import citations
from toolcrib.adapters.codec import Invocation, RawItem, outcome_of
from toolcrib.adapters.items import mapping_of, mappings_of, maybe_text, text_of, texts_of
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.adapters.pydantic_ai.codecs.web_search import domain_fields
from toolcrib.adapters.pydantic_ai.parts import messages_in, text_in
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.web_fetch import (
    KIND,
    Citation,
    FetchedPage,
    WebFetchConfig,
    WebFetchRequest,
    WebFetchResult,
)

_STATUS: Final = "URL_RETRIEVAL_STATUS_"


class WebFetchCodec(NativeCodec[WebFetchConfig, WebFetchResult]):
    """The codec of `web_fetch`. A page that could not be read is a page with an error."""

    kind = KIND
    native = "web_fetch"
    params_type: ClassVar[type[Any] | None] = WebFetchRequest
    result_type: ClassVar[type[Any] | None] = WebFetchResult

    def fields(self, config: WebFetchConfig) -> dict[str, Any]:
        fields = domain_fields(config.domain_filter)
        for name in ("max_uses", "max_content_tokens"):
            value = getattr(config, name)
            fields |= {} if value is None else {name: value}
        return {**fields, "enable_citations": True} if config.citations else fields

    def settings(self, config: WebFetchConfig) -> dict[str, Any]:
        # Else newer models fetch from code, which the prompt may not declare.
        is_anthropic = self.provider == "anthropic"
        return {"anthropic_web_tools_allowed_callers": ["direct"]} if is_anthropic else {}

    def read(
        self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[WebFetchConfig]
    ) -> Invocation:
        pages = _pages(call)
        failure = call.failure or _all_failed(pages)
        status = call.status if call.failure or not failure else "failed"
        result = WebFetchResult(pages, status=status, error=failure)
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=WebFetchRequest(_urls(call)),
            value=result,
            message=failure or result.render(),
            success=failure is None,
            error=failure,
            raw=call.raw,
        )

    def combine(
        self,
        values: Sequence[WebFetchResult],
        items: Sequence[RawItem],
        tool: HostedTool[WebFetchConfig],
    ) -> WebFetchResult | None:
        if not values:
            return None
        cited = citations(messages_in(items))
        return WebFetchResult(
            pages=tuple(page for value in values for page in value.pages),
            text=text_in(items),
            citations=tuple(page for page in cited if isinstance(page, Citation)),
            **outcome_of(values),
        )


def _urls(call: HostedCall) -> tuple[str, ...]:
    arguments = call.arguments
    return tuple(filter(None, [*texts_of(arguments, "urls"), text_of(arguments, "url")]))


def _pages(call: HostedCall) -> tuple[FetchedPage, ...]:
    failure = call.failure
    if failure is not None:
        code = text_of(call.facts, "error_code") or "error"
        return tuple(FetchedPage(url, status=code, error=failure) for url in _urls(call))
    visits = mappings_of(call.result_item, "content") or mappings_of(call.facts, "url_metadata")
    if visits:
        return tuple(_visited(visit) for visit in visits)
    return (_document(call),) if call.facts else ()


def _document(call: HostedCall) -> FetchedPage:
    """A page with its content, as Anthropic sends it."""
    facts = call.facts
    document = mapping_of(facts, "content")
    source = mapping_of(document, "source")
    is_text = text_of(source, "type") == "text"
    return FetchedPage(
        url=text_of(facts, "url") or next(iter(_urls(call)), ""),
        title=text_of(document, "title"),
        text=text_of(source, "data") if is_text else "",
        media_type=maybe_text(source, "media_type"),
        retrieved_at=maybe_text(facts, "retrieved_at"),
    )


def _visited(visit: RawItem) -> FetchedPage:
    """A page with only its address and status, as Gemini sends it."""
    word = text_of(visit, "url_retrieval_status").removeprefix(_STATUS).lower()
    status = "unknown" if word in ("", "unspecified") else word
    is_failed = status not in ("success", "unknown")
    return FetchedPage(
        url=text_of(visit, "retrieved_url") or text_of(visit, "url"),
        status=status,
        error=f"web_fetch failed: {status}" if is_failed else None,
    )


def _all_failed(pages: Sequence[FetchedPage]) -> str | None:
    errors = [page.error for page in pages]
    return errors[0] if errors and all(errors) else None
