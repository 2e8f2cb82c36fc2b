"""What the patched models keep of a response beside pydantic-ai's parts."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import CitationSource, DocumentCitationSource, WebCitationSource

from toolcrib.adapters.pydantic_ai.parts import UNREAD, WIRE

Json = dict[str, Any]


class UnknownContent:
    """Collects the content of one response that pydantic-ai has no part for.

    Derived classes turn unknown calls and their results into parts; everything else stays JSON and
    goes with the response in its provider details.
    """

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._unread: list[Json] = []

    def keep(self, content: Json) -> None:
        """Keep JSON that is neither a call nor the result of one."""
        self._unread.append(content)

    def attach(self, response: Any) -> None:
        """Add the JSON that was kept to the provider details of a response."""
        if self._unread:
            add_details(response, {UNREAD: self._unread})


class WireCalls:
    """The provider's own JSON of every hosted call of a response, by the id of its part."""

    def __init__(self) -> None:
        self._calls: dict[str, Json] = {}
        self._results: dict[str, Json] = {}
        self._tools: dict[str, Json] = {}

    def call(self, call_id: str, content: Json) -> None:
        """Keep a call; many providers send it together with its result."""
        self._calls[call_id] = content

    def result(self, call_id: str, content: Json) -> None:
        """Keep a result that is sent apart from its call."""
        self._results[call_id] = content

    def tool(self, name: str, content: Json) -> None:
        """Keep what a response says of a tool for all its calls together."""
        self._tools[name] = content

    def attach(self, response: Any) -> None:
        """Add what was kept to the provider details of a response."""
        kept = {"calls": self._calls, "results": self._results, "tools": self._tools}
        filled = {name: contents for name, contents in kept.items() if contents}
        if filled:
            add_details(response, {WIRE: filled})


def add_details(response: Any, details: Json) -> None:
    """Add to the provider details of a response or of a part."""
    response.provider_details = {**(response.provider_details or {}), **details}


def citation_source(
    *, url: str = "", title: str = "", document_id: str = "", excerpt: str = ""
) -> CitationSource:
    """The source of a citation: a page where it has an address, else a document."""
    if url:
        return WebCitationSource(url, title=title or None)
    is_named = bool(document_id or title or excerpt)
    return DocumentCitationSource(
        document_id=document_id or None,
        title=title or (None if is_named else "document"),
        excerpts=[excerpt] if excerpt else [],
    )
