"""`/v1/vector_stores`: stores, their files and file batches, and search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid, missing
from toolcrib.embedded.http.bodies import (
    access_of,
    answered,
    listed_owner,
    page,
    read_object,
)
from toolcrib.embedded.http.metadata import read_metadata
from toolcrib.embedded.vector_stores.search import FileMatch, read_search_options, search_files
from toolcrib.embedded.vector_stores.store import (
    FILE_STATUSES,
    counts_of,
    read_attributes,
    read_chunking,
)

if TYPE_CHECKING:
    from toolcrib.embedded.provider import EmbeddedProvider
    from toolcrib.embedded.vector_stores.store import VectorStore, VectorStoreFile


MAX_FILES: Final = 2000
_ONE: Final = "/vector_stores/{store_id}"


class StoreFileRoutes:
    """The routes of the files of vector stores."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, below `/v1`."""
        file, batch = f"{_ONE}/files/{{file_id}}", f"{_ONE}/file_batches/{{batch_id}}"
        return [
            Route(f"{_ONE}/files", answered(self._add), methods=["POST"]),
            Route(f"{_ONE}/files", answered(self._list), methods=["GET"]),
            Route(file, answered(self._retrieve), methods=["GET"]),
            Route(file, answered(self._describe), methods=["POST"]),
            Route(file, answered(self._remove), methods=["DELETE"]),
            Route(f"{file}/content", answered(self._content), methods=["GET"]),
            Route(f"{_ONE}/file_batches", answered(self._add_batch), methods=["POST"]),
            Route(batch, answered(self._batch), methods=["GET"]),
            Route(f"{batch}/cancel", answered(self._cancel), methods=["POST"]),
            Route(f"{batch}/files", answered(self._batch_files), methods=["GET"]),
        ]

    async def _add(self, request: Request) -> Response:
        store, body = await self._store(request), await read_object(request)
        file = await self._provider.vector_stores.files.add(
            store,
            _text(body, "file_id"),
            access_of(request),
            read_attributes(body.get("attributes")),
            read_chunking(body.get("chunking_strategy")),
        )
        return JSONResponse(file.resource)

    async def _list(self, request: Request) -> Response:
        files = await self._provider.vector_stores.files.list(await self._store(request))
        return page(request, [file.resource for file in _of_state(request, files)])

    async def _retrieve(self, request: Request) -> Response:
        return JSONResponse((await self._file(request)).resource)

    async def _describe(self, request: Request) -> Response:
        file, body = await self._file(request), await read_object(request)
        attributes = read_attributes(body.get("attributes"))
        described = await self._provider.vector_stores.files.describe(file, attributes)
        return JSONResponse(described.resource)

    async def _remove(self, request: Request) -> Response:
        file = await self._file(request)
        await self._provider.vector_stores.files.remove(file)
        answer = {"id": file.file_id, "object": "vector_store.file.deleted", "deleted": True}
        return JSONResponse(answer)

    async def _content(self, request: Request) -> Response:
        text = await self._provider.vector_stores.files.text(await self._file(request))
        answer: dict[str, Any] = {
            "object": "vector_store.file_content.page",
            "data": [{"type": "text", "text": text}],
            "has_more": False,
            "next_page": None,
        }
        return JSONResponse(answer)

    async def _add_batch(self, request: Request) -> Response:
        store, body = await self._store(request), await read_object(request)
        files = self._provider.vector_stores.files
        wanted, access = _batch_of(body), access_of(request)
        if not wanted:
            raise invalid("A batch has at least one file.", "file_ids")
        for file in wanted:
            await files.check(file["file_id"], access)
        batch_id = new_id("vsfb")
        added = [
            await files.add(
                store,
                file["file_id"],
                access,
                read_attributes(file.get("attributes")),
                read_chunking(file.get("chunking_strategy")),
                batch_id,
            )
            for file in wanted
        ]
        return JSONResponse(_batch_resource(store, batch_id, added))

    async def _batch(self, request: Request) -> Response:
        store = await self._store(request)
        files = await self._of_batch(request, store)
        return JSONResponse(_batch_resource(store, request.path_params["batch_id"], files))

    async def _cancel(self, request: Request) -> Response:
        files = await self._of_batch(request, await self._store(request))
        await self._provider.vector_stores.files.cancel(files)
        return await self._batch(request)

    async def _batch_files(self, request: Request) -> Response:
        files = await self._of_batch(request, await self._store(request))
        return page(request, [file.resource for file in _of_state(request, files)])

    async def _of_batch(self, request: Request, store: VectorStore) -> list[VectorStoreFile]:
        batch_id = request.path_params["batch_id"]
        files = await self._provider.vector_stores.files.list(store)
        members = [file for file in files if file.batch_id == batch_id]
        if not members:
            raise missing("File batch", batch_id)
        return members

    async def _store(self, request: Request) -> VectorStore:
        store_id = request.path_params["store_id"]
        return await self._provider.vector_stores.use(store_id, access_of(request))

    async def _file(self, request: Request) -> VectorStoreFile:
        store = await self._store(request)
        return await self._provider.vector_stores.files.get(store, request.path_params["file_id"])


def read_file_ids(body: Mapping[str, Any], default: list[str] | None) -> list[str]:
    """The file ids of a body, without duplicates. Raises `ApiFault`."""
    value = body.get("file_ids", default)
    listed = cast(list[object], value) if isinstance(value, list) else [None]
    if len(listed) > MAX_FILES or not all(isinstance(file_id, str) for file_id in listed):
        raise invalid(f"'file_ids' must be a list of at most {MAX_FILES} ids.", "file_ids")
    return list(dict.fromkeys(str(file_id) for file_id in listed))


def _batch_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The files of a batch, each with its own options. Raises `ApiFault`."""
    read_attributes(body.get("attributes"))
    read_chunking(body.get("chunking_strategy"))
    value = body.get("files")
    if value is None:
        return [{**body, "file_id": file_id} for file_id in read_file_ids(body, default=None)]
    listed = cast(list[object], value) if isinstance(value, list) else [None]
    if len(listed) > MAX_FILES or not all(isinstance(file, dict) for file in listed):
        raise invalid(f"'files' must be a list of at most {MAX_FILES} objects.", "files")
    files = [cast(dict[str, Any], file) for file in listed]
    return [{**file, "file_id": _text(file, "file_id")} for file in files]


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise invalid(f"Missing required parameter: '{key}'.", key)
    return value


def _of_state(request: Request, files: list[VectorStoreFile]) -> list[VectorStoreFile]:
    state = request.query_params.get("filter")
    if state not in (None, *FILE_STATUSES):
        raise invalid(f"'filter' must be one of {', '.join(FILE_STATUSES)}.", "filter")
    return [file for file in files if state in (None, file.status)]


def _batch_resource(
    store: VectorStore, batch_id: str, files: list[VectorStoreFile]
) -> dict[str, Any]:
    states = {file.status for file in files}
    status = "cancelled" if "cancelled" in states else "completed"
    return {
        "id": batch_id,
        "object": "vector_store.files_batch",
        "created_at": min((file.created_at for file in files), default=store.created_at),
        "vector_store_id": store.id,
        "status": "in_progress" if "in_progress" in states else status,
        "file_counts": counts_of(files),
    }


_MAX_QUERY: Final = 4096


class VectorStoreRoutes:
    """The routes of vector stores."""

    def __init__(self, provider: EmbeddedProvider) -> None:
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
        body, access = await read_object(request), access_of(request)
        chunking = read_chunking(body.get("chunking_strategy"))
        stores, file_ids = self._provider.vector_stores, read_file_ids(body, default=[])
        for file_id in file_ids:
            await stores.files.check(file_id, access)
        store = await stores.create(_name(body) or "", read_metadata(body), _days(body), access)
        for file_id in file_ids:
            await stores.files.add(store, file_id, access, {}, chunking)
        return JSONResponse(await self._resource(store))

    async def _list(self, request: Request) -> Response:
        stores = await self._provider.vector_stores.list(listed_owner(request))
        return page(request, [await self._resource(store) for store in stores])

    async def _retrieve(self, request: Request) -> Response:
        return JSONResponse(await self._resource(await self._store(request)))

    async def _change(self, request: Request) -> Response:
        store, body = await self._store(request), await read_object(request)
        name = _name(body)
        changed = replace(
            store,
            name=store.name if name is None else name,
            metadata=read_metadata(body) if "metadata" in body else store.metadata,
            expires_days=_days(body) if "expires_after" in body else store.expires_days,
        )
        await self._provider.vector_stores.change(changed)
        return JSONResponse(await self._resource(changed))

    async def _delete(self, request: Request) -> Response:
        store = await self._store(request)
        await self._provider.vector_stores.delete(store)
        answer = {"id": store.id, "object": "vector_store.deleted", "deleted": True}
        return JSONResponse(answer)

    async def _search(self, request: Request) -> Response:
        stores = self._provider.vector_stores
        store = await stores.use(request.path_params["store_id"], access_of(request))
        body = await read_object(request)
        queries = _queries(body)
        options = read_search_options({"max_num_results": 10, **body}, "search")
        matches = await search_files(stores, [store], queries, options)
        answer: dict[str, Any] = {
            "object": "vector_store.search_results.page",
            "search_query": queries,
            "data": [_result(match) for match in matches],
            "has_more": False,
            "next_page": None,
        }
        return JSONResponse(answer)

    async def _store(self, request: Request) -> VectorStore:
        store_id = request.path_params["store_id"]
        return await self._provider.vector_stores.get(store_id, access_of(request))

    async def _resource(self, store: VectorStore) -> dict[str, Any]:
        return await self._provider.vector_stores.resource(store)


def _queries(body: Mapping[str, Any]) -> list[str]:
    query = body.get("query")
    value = cast(list[object], query) if isinstance(query, list) else [query]
    if not value or not all(isinstance(text, str) and text for text in value):
        raise invalid("Missing required parameter: 'query', text or a list of texts.", "query")
    return [str(text)[:_MAX_QUERY] for text in value]


def _name(body: Mapping[str, Any]) -> str | None:
    return None if body.get("name") is None else _text(body, "name")


def _days(body: Mapping[str, Any]) -> int | None:
    value = body.get("expires_after")
    if value is None:
        return None
    facts = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    days = facts.get("days")
    if facts.get("anchor") != "last_active_at" or type(days) is not int:
        raise invalid("Give an anchor of last_active_at, and days.", "expires_after")
    if not 1 <= days <= 365:
        raise invalid("A vector store expires after 1 to 365 days.", "expires_after.days")
    return days


def _result(match: FileMatch) -> dict[str, Any]:
    return {
        "file_id": match.file.file_id,
        "filename": match.file.filename,
        "score": round(match.score, 4),
        "attributes": dict(match.file.attributes),
        "content": [{"type": "text", "text": match.text}],
    }
