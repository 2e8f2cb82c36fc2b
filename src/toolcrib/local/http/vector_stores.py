"""`/v1/vector_stores`, their files and batches of files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from toolcrib.local.faults import invalid, missing
from toolcrib.local.http.answering import answered, page, read_json
from toolcrib.local.ids import new_id
from toolcrib.local.vector_stores.finding import Found, find, read_terms
from toolcrib.local.vector_stores.store import counts_of, read_attributes, read_chunking

if TYPE_CHECKING:
    from toolcrib.local.provider import LocalProvider
    from toolcrib.local.vector_stores.store import StoreFile, VectorStore


class VectorStoreRoutes:
    """Answers what is asked of vector stores."""

    def __init__(self, provider: LocalProvider) -> None:
        self._provider = provider

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, below `/v1`."""
        one = "/vector_stores/{store_id}"
        file, batch = f"{one}/files/{{file_id}}", f"{one}/file_batches/{{batch_id}}"
        return [
            Route("/vector_stores", answered(self._create), methods=["POST"]),
            Route("/vector_stores", answered(self._list), methods=["GET"]),
            Route(one, answered(self._retrieve), methods=["GET"]),
            Route(one, answered(self._change), methods=["POST"]),
            Route(one, answered(self._delete), methods=["DELETE"]),
            Route(f"{one}/search", answered(self._search), methods=["POST"]),
            Route(f"{one}/files", answered(self._add), methods=["POST"]),
            Route(f"{one}/files", answered(self._files), methods=["GET"]),
            Route(file, answered(self._file), methods=["GET"]),
            Route(file, answered(self._describe), methods=["POST"]),
            Route(file, answered(self._remove), methods=["DELETE"]),
            Route(f"{one}/file_batches", answered(self._add_batch), methods=["POST"]),
            Route(batch, answered(self._batch), methods=["GET"]),
            Route(f"{batch}/files", answered(self._batch_files), methods=["GET"]),
        ]

    async def _create(self, request: Request) -> Response:
        body = await _object(request)
        chunking = read_chunking(body.get("chunking_strategy"))
        stores = self._provider.vector_stores
        store = await stores.create(str(body.get("name") or ""), _metadata(body), _days(body))
        for file_id in _file_ids(body, default=[]):
            await stores.add(store, file_id, {}, chunking)
        return await self._told(store)

    async def _list(self, request: Request) -> Response:
        stores = self._provider.vector_stores
        return page(request, [each.told(await stores.files(each)) for each in await stores.list()])

    async def _retrieve(self, request: Request) -> Response:
        return await self._told(await self._store(request))

    async def _change(self, request: Request) -> Response:
        store, body = await self._store(request), await _object(request)
        name = body.get("name")
        metadata = _metadata(body) if "metadata" in body else None
        changed = await self._provider.vector_stores.change(
            store, name=None if name is None else str(name), metadata=metadata
        )
        return await self._told(changed)

    async def _delete(self, request: Request) -> Response:
        store = await self._store(request)
        await self._provider.vector_stores.delete(store)
        told = {"id": store.id, "object": "vector_store.deleted", "deleted": True}
        return JSONResponse(told)

    async def _search(self, request: Request) -> Response:
        store, body = await self._store(request), await _object(request)
        query = body.get("query")
        given = cast(list[object], query) if isinstance(query, list) else [query]
        queries = [str(each) for each in given if each]
        if not queries:
            raise invalid("Missing required parameter: 'query'.", "query")
        terms = read_terms({"max_num_results": 10, **body}, "search")
        found = await find(self._provider.vector_stores, [store], queries, terms)
        told: dict[str, Any] = {
            "object": "vector_store.search_results.page",
            "search_query": queries,
            "data": [_result(each) for each in found],
            "has_more": False,
            "next_page": None,
        }
        return JSONResponse(told)

    async def _add(self, request: Request) -> Response:
        store, body = await self._store(request), await _object(request)
        file = await self._provider.vector_stores.add(
            store,
            _text(body, "file_id"),
            read_attributes(body.get("attributes")),
            read_chunking(body.get("chunking_strategy")),
        )
        return JSONResponse(file.told)

    async def _files(self, request: Request) -> Response:
        files = await self._provider.vector_stores.files(await self._store(request))
        return page(request, [each.told for each in _of_state(request, files)])

    async def _file(self, request: Request) -> Response:
        return JSONResponse((await self._one_file(request)).told)

    async def _describe(self, request: Request) -> Response:
        file, body = await self._one_file(request), await _object(request)
        await self._provider.vector_stores.describe(file, read_attributes(body.get("attributes")))
        return JSONResponse((await self._one_file(request)).told)

    async def _remove(self, request: Request) -> Response:
        file = await self._one_file(request)
        await self._provider.vector_stores.remove(file)
        told = {"id": file.file_id, "object": "vector_store.file.deleted", "deleted": True}
        return JSONResponse(told)

    async def _add_batch(self, request: Request) -> Response:
        store, body = await self._store(request), await _object(request)
        chunking = read_chunking(body.get("chunking_strategy"))
        attributes = read_attributes(body.get("attributes"))
        batch_id = new_id("vsfb")
        files = [
            await self._provider.vector_stores.add(store, each, attributes, chunking, batch_id)
            for each in _file_ids(body, default=None)
        ]
        return JSONResponse(_batch_told(store, batch_id, files))

    async def _batch(self, request: Request) -> Response:
        store = await self._store(request)
        files = await self._of_batch(request, store)
        return JSONResponse(_batch_told(store, request.path_params["batch_id"], files))

    async def _batch_files(self, request: Request) -> Response:
        files = await self._of_batch(request, await self._store(request))
        return page(request, [each.told for each in _of_state(request, files)])

    async def _of_batch(self, request: Request, store: VectorStore) -> list[StoreFile]:
        batch_id = request.path_params["batch_id"]
        files = await self._provider.vector_stores.files(store)
        found = [each for each in files if each.batch_id == batch_id]
        if not found:
            raise missing("File batch", batch_id)
        return found

    async def _store(self, request: Request) -> VectorStore:
        return await self._provider.vector_stores.get(request.path_params["store_id"])

    async def _one_file(self, request: Request) -> StoreFile:
        store = await self._store(request)
        return await self._provider.vector_stores.file(store, request.path_params["file_id"])

    async def _told(self, store: VectorStore) -> Response:
        return JSONResponse(store.told(await self._provider.vector_stores.files(store)))


async def _object(request: Request) -> dict[str, Any]:
    body = await read_json(request)
    if not isinstance(body, dict):
        raise invalid("The body must be a JSON object.")
    return cast(dict[str, Any], body)


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise invalid(f"Missing required parameter: '{key}'.", key)
    return value


def _file_ids(body: Mapping[str, Any], default: list[str] | None) -> list[str]:
    given = body.get("file_ids", default)
    listed = cast(list[object], given) if isinstance(given, list) else [None]
    if not all(isinstance(each, str) for each in listed):
        raise invalid("'file_ids' must be a list of ids.", "file_ids")
    return [str(each) for each in listed]


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
    if facts.get("anchor") != "last_active_at" or not isinstance(days, int):
        raise invalid("Give an anchor of last_active_at, and days.", "expires_after")
    if not 1 <= days <= 365:
        raise invalid("A vector store expires after 1 to 365 days.", "expires_after.days")
    return days


def _of_state(request: Request, files: list[StoreFile]) -> list[StoreFile]:
    state = request.query_params.get("filter")
    return [each for each in files if state in (None, each.status)]


def _batch_told(store: VectorStore, batch_id: str, files: list[StoreFile]) -> dict[str, Any]:
    is_busy = any(each.status == "in_progress" for each in files)
    return {
        "id": batch_id,
        "object": "vector_store.files_batch",
        "created_at": min((each.created_at for each in files), default=store.created_at),
        "vector_store_id": store.id,
        "status": "in_progress" if is_busy else "completed",
        "file_counts": counts_of(files),
    }


def _result(found: Found) -> dict[str, Any]:
    return {
        "file_id": found.file.file_id,
        "filename": found.file.filename,
        "score": round(found.score, 4),
        "attributes": dict(found.file.attributes),
        "content": [{"type": "text", "text": found.text}],
    }
