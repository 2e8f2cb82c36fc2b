"""A SearXNG server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit

from toolcrib.errors import UsageError
from toolcrib.local.web.source import Domains, Page, WebUnavailable

MOST_BYTES: Final = 4 * 1024 * 1024
MOST_TEXT: Final = 4000


class Searxng:
    """Asks a SearXNG endpoint that answers in JSON (`formats: [json]` in its settings)."""

    is_external = True

    def __init__(self, endpoint: str, *, seconds: float = 15.0) -> None:
        if urlsplit(endpoint).scheme not in ("http", "https"):
            raise UsageError(f"the endpoint must be http or https, not {endpoint!r}")
        self._endpoint = endpoint.rstrip("/")
        self._seconds = seconds

    async def search(self, query: str, most: int, domains: Domains) -> Sequence[Page]:
        """Pages that the engine has found."""
        asked = " ".join([query, *(f"-site:{each}" for each in domains.blocked)])
        if len(domains.allowed) == 1:
            asked = f"{asked} site:{domains.allowed[0]}"
        answer = await self._ask({"q": asked, "format": "json"})
        results = answer.get("results")
        listed = cast(list[object], results) if isinstance(results, list) else []
        pages = [page for each in listed if (page := _page(each)) is not None]
        # The engine may pass over what it was asked to leave out.
        return [page for page in pages if domains.admit(page.url)][:most]

    async def open(self, url: str) -> Page | None:
        """It only searches."""
        return None

    async def _ask(self, params: dict[str, str]) -> dict[str, Any]:
        import httpx2

        try:
            async with httpx2.AsyncClient(timeout=self._seconds) as client:
                response = await client.get(f"{self._endpoint}/search", params=params)
                response.raise_for_status()
                if len(response.content) > MOST_BYTES:
                    raise WebUnavailable("the search engine answered with too much")
                return response.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise WebUnavailable(
                f"the search engine could not be asked: {type(error).__name__}"
            ) from None


def _page(result: object) -> Page | None:
    facts = cast(dict[str, Any], result) if isinstance(result, dict) else {}
    url, title = facts.get("url"), facts.get("title")
    if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https"):
        return None
    text = str(facts.get("content") or "")[:MOST_TEXT]
    return Page(url, str(title) if title else url, text)
