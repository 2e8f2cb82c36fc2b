"""A SearXNG server as a web source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from toolcrib.embedded.search.documents import one_line
from toolcrib.embedded.web.source import Domains, WebPage, host_of
from toolcrib.errors import UsageError, WebUnavailable

if TYPE_CHECKING:
    from httpx2 import Response

MAX_BYTES: Final = 4 * 1024 * 1024
MAX_TEXT: Final = 4000


class Searxng:
    """Searches with a SearXNG server that allows JSON (`formats: [json]` in its settings)."""

    is_external = True

    def __init__(self, endpoint: str, *, seconds: float = 15.0) -> None:
        if urlsplit(endpoint).scheme not in ("http", "https"):
            raise UsageError(f"the endpoint must be http or https, not {endpoint!r}")
        self._endpoint = endpoint.rstrip("/")
        self._seconds = seconds

    async def search(self, query: str, most: int, domains: Domains) -> Sequence[WebPage]:
        """The results of the server."""
        terms = " ".join([query, *(f"-site:{domain}" for domain in domains.blocked)])
        if len(domains.allowed) == 1:
            terms = f"{terms} site:{domains.allowed[0]}"
        answer = await self._ask({"q": terms, "format": "json"})
        results = answer.get("results")
        listed = cast(list[object], results) if isinstance(results, list) else []
        pages = [page for domain in listed if (page := _page(domain)) is not None]
        # An engine may ignore the site filters of the query.
        return [page for page in pages if domains.admit(page.url)][:most]

    async def open(self, url: str) -> WebPage | None:
        """None: it only searches."""
        return None

    async def _ask(self, params: dict[str, str]) -> dict[str, Any]:
        import httpx2

        try:
            async with (
                httpx2.AsyncClient(timeout=self._seconds) as client,
                client.stream("GET", f"{self._endpoint}/search", params=params) as response,
            ):
                response.raise_for_status()
                answer: object = json.loads(await _body(response))
        except (httpx2.HTTPError, ValueError, RecursionError) as error:
            raise WebUnavailable(
                f"the search engine could not be reached: {type(error).__name__}"
            ) from None
        if not isinstance(answer, dict):
            raise WebUnavailable("the search engine answered with something else than results")
        return cast(dict[str, Any], answer)


async def _body(response: Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_BYTES:
            raise WebUnavailable("the search engine answered with too much")
    return bytes(body)


def _page(result: object) -> WebPage | None:
    facts = cast(dict[str, Any], result) if isinstance(result, dict) else {}
    url, title = facts.get("url"), facts.get("title")
    if not isinstance(url, str) or not url.isprintable() or host_of(url) is None:
        return None
    text = str(facts.get("content") or "")[:MAX_TEXT]
    shown = one_line(title) if isinstance(title, str) else ""
    return WebPage(url, shown or url, text)
