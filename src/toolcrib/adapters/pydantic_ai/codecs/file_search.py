"""File search through pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.answer import PlacedAnnotation, placed_annotations
from toolcrib.adapters.codec import Invocation, RawItem
from toolcrib.adapters.items import (
    mapping_of,
    mappings_of,
    maybe_float,
    maybe_text,
    plain,
    text_of,
    texts_of,
)
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.adapters.pydantic_ai.parts import messages_in, text_in
from toolcrib.tools.file_search import (
    KIND,
    FileCitation,
    FileSearchConfig,
    FileSearchHit,
    FileSearchQuery,
    FileSearchResult,
)
from toolcrib.tools.provider_tools import HostedTool

_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "openai-responses": {"openai_include_file_search_results": True},
    "xai": {"xai_include_collections_search_output": True},
}


class FileSearchCodec(NativeCodec[FileSearchConfig, FileSearchResult]):
    """The codec of `file_search`. Text and citations belong to all calls together."""

    kind = KIND
    native = "file_search"
    params_type: ClassVar[type[Any] | None] = FileSearchQuery
    result_type: ClassVar[type[Any] | None] = FileSearchResult

    def fields(self, config: FileSearchConfig) -> dict[str, Any]:
        fields: dict[str, Any] = {"file_store_ids": list(config.vector_store_ids)}
        if config.max_results is not None:
            fields["max_num_results"] = config.max_results
        return fields

    def settings(self, config: FileSearchConfig) -> dict[str, Any]:
        return dict(_SETTINGS.get(self.provider, {}))

    def read(
        self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[FileSearchConfig]
    ) -> Invocation:
        failure = call.failure
        queries = _queries(call)
        value = FileSearchResult(results=tuple(_hits(call)), queries=queries)
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=FileSearchQuery(queries),
            value=None if failure else value,
            message=failure or value.render(),
            success=failure is None,
            error=failure,
            raw=call.raw,
        )

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[FileSearchConfig]
    ) -> FileSearchResult | None:
        items = [plain(item) for item in response_items]
        calls = self.hosted_calls(items, tool)
        if not calls:
            return None
        done = [call for call in calls if call.failure is None]
        return FileSearchResult(
            results=tuple(hit for call in done for hit in _hits(call)),
            queries=tuple(dict.fromkeys(query for call in calls for query in _queries(call))),
            citations=tuple(_citations(items)),
            text=text_in(items),
        )


def _queries(call: HostedCall) -> tuple[str, ...]:
    arguments = call.arguments
    return tuple(filter(None, texts_of(arguments, "queries") or [text_of(arguments, "query")]))


def _hits(call: HostedCall) -> Iterator[FileSearchHit]:
    """The passages, in the fields of OpenAI, xAI and Gemini."""
    passages = mappings_of(call.result_item, "content") or mappings_of(call.facts, "results")
    for passage in passages:
        yield FileSearchHit(
            file_id=text_of(passage, "file_id") or text_of(passage, "document_name"),
            filename=text_of(passage, "filename") or text_of(passage, "title"),
            text=text_of(passage, "text") or text_of(passage, "chunk_content"),
            score=maybe_float(passage, "score"),
            attributes=_attributes(passage),
            vector_store_id=maybe_text(passage, "vector_store_id")
            or maybe_text(passage, "file_search_store"),
        )


def _attributes(passage: RawItem) -> dict[str, str | float | bool]:
    attributes = mapping_of(passage, "attributes")
    for entry in mappings_of(passage, "custom_metadata"):
        value = entry.get("string_value", entry.get("numeric_value"))
        attributes |= {text_of(entry, "key"): value}
    return {key: value for key, value in attributes.items() if isinstance(value, str | int | float)}


def _citations(items: Sequence[RawItem]) -> Iterator[FileCitation]:
    """The files that the text cites; a passage counts as cited where it ends."""
    for note in _notes(items):
        facts = note.annotation.raw
        file_id = text_of(facts, "document_id") or text_of(facts, "file_id")
        title = text_of(facts, "title") or text_of(facts, "filename")
        span = note.span()
        if file_id or title:
            yield FileCitation(file_id, title, span[1] if span else note.point())


def _notes(items: Sequence[RawItem]) -> Iterator[PlacedAnnotation]:
    """The citations of documents."""
    for note in placed_annotations(messages_in(items)):
        if note.annotation.kind in ("document", "file_citation"):
            yield note
