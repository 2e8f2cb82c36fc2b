"""`file_search`: search in vector stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.tools.tool import FileSource, ToolAnswer
from toolcrib.embedded.vector_stores.search import (
    FileMatch,
    FileSearchOptions,
    read_search_options,
    search_files,
)

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.responses.request import ResponseRequest
    from toolcrib.embedded.responses.writer import ResponseWriter
    from toolcrib.embedded.tools.tool import OpenTool, RequestContext
    from toolcrib.embedded.vector_stores.repository import VectorStoreRepository
    from toolcrib.embedded.vector_stores.store import VectorStore

TYPE: Final = "file_search"
_MAX_QUERIES: Final = 8
_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "queries": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": _MAX_QUERIES,
            "description": "What to look for, in one or several wordings.",
        }
    },
    "required": ["queries"],
    "additionalProperties": False,
}
_ABOUT: Final = "Search the user's files. Cite what you take from them by the marks of the sources."


class FileSearchKind:
    """Opens searches of vector stores."""

    types = frozenset({TYPE})

    def __init__(self, stores: VectorStoreRepository) -> None:
        self._stores = stores

    def check(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault`."""
        read_search_options(config, param)
        ids = config.get("vector_store_ids")
        if not isinstance(ids, list) or not ids:
            raise invalid("'vector_store_ids' must be a list of ids.", f"{param}.vector_store_ids")

    async def check_resources(
        self, config: Mapping[str, Any], param: str, access: ResourceAccess
    ) -> None:
        """Raises `ApiFault` for a store that does not exist."""
        for store_id in config["vector_store_ids"]:
            await self._stores.use(str(store_id), access, f"{param}.vector_store_ids")

    async def open(
        self, config: Mapping[str, Any], request: ResponseRequest, context: RequestContext
    ) -> OpenTool:
        """Open the search of one request. Raises `ApiFault` for a store that does not exist."""
        ids = [str(store_id) for store_id in config["vector_store_ids"]]
        stores = [
            await self._stores.use(store_id, context.access, "tools.vector_store_ids")
            for store_id in ids
        ]
        shows = request.includes("file_search_call.results")
        return _OpenFileSearch(
            self._stores, stores, read_search_options(config, "tools"), shows_results=shows
        )


class _OpenFileSearch:
    def __init__(
        self,
        stores: VectorStoreRepository,
        chosen: Sequence[VectorStore],
        options: FileSearchOptions,
        *,
        shows_results: bool,
    ) -> None:
        self._stores = stores
        self._chosen = chosen
        self._options = options
        self._shows_results = shows_results

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """One: `file_search`."""
        return [BackendTool(TYPE, _ABOUT, _PARAMETERS, has_sources=True)]

    async def close(self) -> None:
        """Nothing to release."""

    async def run(
        self, name: str, arguments: Mapping[str, Any], writer: ResponseWriter
    ) -> ToolAnswer:
        """Search the stores and answer with the matches."""
        queries = read_queries(arguments)
        item: dict[str, Any] = {"id": new_id("fs"), "type": "file_search_call"}
        index = writer.add_item({**item, "status": "in_progress", "queries": [], "results": None})
        writer.emit("file_search_call.in_progress", index)
        writer.emit("file_search_call.searching", index)
        matches = await search_files(self._stores, self._chosen, queries, self._options)
        results = [_result(match) for match in matches]
        writer.emit("file_search_call.completed", index)
        shown = results if self._shows_results else None
        writer.finish_item(index, status="completed", queries=queries, results=shown)
        sources = [FileSource(match.file.file_id, match.file.filename) for match in matches]
        return ToolAnswer(item["id"], _answer_text(matches), {"results": results}, sources)


def read_queries(arguments: Mapping[str, Any]) -> list[str]:
    """The queries of a call; models also send one query instead of a list."""
    value = arguments.get("queries", arguments.get("query"))
    listed = cast(list[object], value) if isinstance(value, list) else [value]
    return [str(query) for query in listed if query][:_MAX_QUERIES]


def _result(match: FileMatch) -> dict[str, Any]:
    return {
        "file_id": match.file.file_id,
        "filename": match.file.filename,
        "score": round(match.score, 4),
        "text": match.text,
        "attributes": dict(match.file.attributes),
        "vector_store_id": match.file.store_id,
    }


def _answer_text(matches: Sequence[FileMatch]) -> str:
    if not matches:
        return "Nothing was found."
    return "\n\n".join(f"From {match.file.filename}:\n{match.text}" for match in matches)
