"""`/v1/vector_stores`, and searching them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from toolcrib.local.faults import invalid
from toolcrib.local.http.answering import answered, page
from toolcrib.local.http.bodies import read_object
from toolcrib.local.http.store_files import StoreFileRoutes, read_file_ids
from toolcrib.local.vector_stores.finding import Found, find, read_terms
from toolcrib.local.vector_stores.store import read_chunking

if TYPE_CHECKING:
    from toolcrib.local.provider import LocalProvider
    from toolcrib.local.vector_stores.store import VectorStore

_MOST_QUERY: Final = 4096


class VectorStoreRoutes:
    """Answers what is asked of vector stores."""

    def __init__(self, provider: LocalProvider) -> None:
        self._provider = provider

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, below `/v1`."""
        one = "/vector_stores/{store_id}"
        return [
            Route("/vector_stores", answered(self._create), methods=["POST"]),
            Route("/vector_stores", answered(self._list), methods=["GET"]),
            Route(one, answered(self._retrieve), methods=["GET"]),
            Route(one, answered(self._change), methods=["POST"]),
            Route(one, answered(self._delete), methods=["DELETE"]),
            Route(f"{one}/search", answered(self._search), methods=["POST"]),
            *StoreFileRoutes(self._provider).routes,
        ]

    async def _create(self, request: Request) -> Response:
        body = await read_object(request)
        chunking = read_chunking(body.get("chunking_strategy"))
        stores, file_ids = self._provider.vector_stores, read_file_ids(body, default=[])
        for file_id in file_ids:
            await stores.files.check(file_id)
        store = await stores.create(str(body.get("name") or ""), _metadata(body), _days(body))
        for file_id in file_ids:
            await stores.files.add(store, file_id, {}, chunking)
        return JSONResponse(await self._told(store))

    async def _list(self, request: Request) -> Response:
        stores = await self._provider.vector_stores.list()
        return page(request, [await self._told(each) for each in stores])

    async def _retrieve(self, request: Request) -> Response:
        return JSONResponse(await self._told(await self._store(request)))

    async def _change(self, request: Request) -> Response:
        store, body = await self._store(request), await read_object(request)
        name = body.get("name")
        changed = replace(
            store,
            name=store.name if name is None else str(name),
            metadata=_metadata(body) if "metadata" in body else store.metadata,
            expires_days=_days(body) if "expires_after" in body else store.expires_days,
        )
        await self._provider.vector_stores.change(changed)
        return JSONResponse(await self._told(changed))

    async def _delete(self, request: Request) -> Response:
        store = await self._store(request)
        await self._provider.vector_stores.delete(store)
        told = {"id": store.id, "object": "vector_store.deleted", "deleted": True}
        return JSONResponse(told)

    async def _search(self, request: Request) -> Response:
        stores = self._provider.vector_stores
        store = await stores.use(request.path_params["store_id"])
        body = await read_object(request)
        queries = _queries(body)
        terms = read_terms({"max_num_results": 10, **body}, "search")
        found = await find(stores, [store], queries, terms)
        told: dict[str, Any] = {
            "object": "vector_store.search_results.page",
            "search_query": queries,
            "data": [_result(each) for each in found],
            "has_more": False,
            "next_page": None,
        }
        return JSONResponse(told)

    async def _store(self, request: Request) -> VectorStore:
        return await self._provider.vector_stores.get(request.path_params["store_id"])

    async def _told(self, store: VectorStore) -> dict[str, Any]:
        return await self._provider.vector_stores.told(store)


def _queries(body: Mapping[str, Any]) -> list[str]:
    query = body.get("query")
    given = cast(list[object], query) if isinstance(query, list) else [query]
    if not given or not all(isinstance(each, str) and each for each in given):
        raise invalid("Missing required parameter: 'query', text or a list of texts.", "query")
    return [str(each)[:_MOST_QUERY] for each in given]


def _metadata(body: Mapping[str, Any]) -> dict[str, str]:
    given: object = body.get("metadata") or {}
    facts = cast(dict[str, Any], given) if isinstance(given, dict) else dict[str, Any](bad=None)
    if len(facts) > 16 or not all(isinstance(value, str) for value in facts.values()):
        raise invalid("Metadata is at most 16 keys with text.", "metadata")
    return facts


def _days(body: Mapping[str, Any]) -> int | None:
    given = body.get("expires_after")
    if given is None:
        return None
    facts = cast(dict[str, Any], given) if isinstance(given, dict) else {}
    days = facts.get("days")
    if facts.get("anchor") != "last_active_at" or type(days) is not int:
        raise invalid("Give an anchor of last_active_at, and days.", "expires_after")
    if not 1 <= days <= 365:
        raise invalid("A vector store expires after 1 to 365 days.", "expires_after.days")
    return days


def _result(found: Found) -> dict[str, Any]:
    return {
        "file_id": found.file.file_id,
        "filename": found.file.filename,
        "score": round(found.score, 4),
        "attributes": dict(found.file.attributes),
        "content": [{"type": "text", "text": found.text}],
    }
