"""File search through pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.answer import citations
from toolcrib.adapters.codec import Invocation, RawItem, outcome_of
from toolcrib.adapters.items import (
    mapping_of,
    mappings_of,
    maybe_float,
    maybe_text,
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
        if config.retrieval_mode is not None:
            fields["retrieval_mode"] = config.retrieval_mode
        if config.instructions is not None:
            fields["instructions"] = config.instructions
        return fields

    def settings(self, config: FileSearchConfig) -> dict[str, Any]:
        return dict(_SETTINGS.get(self.provider, {}))

    def read(
        self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[FileSearchConfig]
    ) -> Invocation:
        failure = call.failure
        queries = _queries(call)
        value = FileSearchResult(
            results=() if failure else tuple(_hits(call)),
            queries=queries,
            status=call.status,
            error=failure,
        )
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=FileSearchQuery(queries),
            value=value,
            message=failure or value.render(),
            success=failure is None,
            error=failure,
            raw=call.raw,
        )

    def combine(
        self,
        values: Sequence[FileSearchResult],
        items: Sequence[RawItem],
        tool: HostedTool[FileSearchConfig],
    ) -> FileSearchResult | None:
        if not values:
            return None
        cited = citations(messages_in(items))
        return FileSearchResult(
            results=tuple(hit for value in values for hit in value.results),
            queries=tuple(dict.fromkeys(query for value in values for query in value.queries)),
            citations=tuple(file for file in cited if isinstance(file, FileCitation)),
            text=text_in(items),
            **outcome_of(values),
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
