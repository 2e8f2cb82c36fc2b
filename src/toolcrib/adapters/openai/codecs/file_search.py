"""File search on the Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, assert_never

from toolcrib.adapters.answer import citations
from toolcrib.adapters.codec import Codec, Invocation, RawItem, failure_of, outcome_of, status_of
from toolcrib.adapters.items import (
    mapping_of,
    mappings_of,
    maybe_float,
    maybe_text,
    text_of,
    texts_of,
)
from toolcrib.adapters.openai.items import message_text, messages_in
from toolcrib.adapters.support import check, options_of
from toolcrib.tools.file_search import (
    KIND,
    Comparison,
    Compound,
    FileCitation,
    FileFilter,
    FileSearchConfig,
    FileSearchHit,
    FileSearchQuery,
    FileSearchResult,
    Ranking,
)
from toolcrib.tools.provider_tools import HostedTool

PROVIDER: Final = "openai"


class OpenAIFileSearchCodec(Codec[FileSearchConfig, FileSearchResult]):
    """Speaks for `file_search`."""

    kind = KIND
    call_types: ClassVar[frozenset[str]] = frozenset({"file_search_call"})
    include: ClassVar[tuple[str, ...]] = ("file_search_call.results",)
    params_type: ClassVar[type[Any] | None] = FileSearchQuery
    result_type: ClassVar[type[Any] | None] = FileSearchResult

    def serialize(self, tool: HostedTool[FileSearchConfig]) -> dict[str, Any]:
        config = tool.config
        check(PROVIDER, KIND, options_of(config))
        entry: dict[str, Any] = {
            "type": "file_search",
            "vector_store_ids": list(config.vector_store_ids),
        }
        if config.max_results is not None:
            entry["max_num_results"] = config.max_results
        if config.filters is not None:
            entry["filters"] = _filter(config.filters)
        if config.ranking and (ranking := _ranking(config.ranking)):
            entry["ranking_options"] = ranking
        return entry

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[FileSearchConfig]
    ) -> Invocation:
        failure = failure_of(item)
        queries = tuple(texts_of(item, "queries"))
        value = FileSearchResult(
            results=() if failure else tuple(_hits(item)),
            queries=queries,
            status=status_of(item, failure),
            error=failure,
        )
        return Invocation(
            item_id=text_of(item, "id"),
            kind=self.kind,
            params=FileSearchQuery(queries),
            value=value,
            message=failure or value.render(),
            success=failure is None,
            error=failure,
            raw=item,
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
            text=message_text(items),
            **outcome_of(values),
        )


def _ranking(ranking: Ranking) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if ranking.ranker is not None:
        wire["ranker"] = ranking.ranker
    if ranking.score_threshold is not None:
        wire["score_threshold"] = ranking.score_threshold
    if ranking.hybrid is not None:
        wire["hybrid_search"] = {
            "embedding_weight": ranking.hybrid.embedding,
            "text_weight": ranking.hybrid.text,
        }
    return wire


def _filter(file_filter: FileFilter) -> dict[str, Any]:
    match file_filter:
        case Comparison(key, operator, value):
            wire = list(value) if isinstance(value, tuple) else value
            return {"type": operator, "key": key, "value": wire}
        case Compound(operator, filters):
            return {"type": operator, "filters": [_filter(member) for member in filters]}
        case _:
            assert_never(file_filter)


def _hits(item: RawItem) -> Iterator[FileSearchHit]:
    for hit in mappings_of(item, "results"):
        attributes = mapping_of(hit, "attributes")
        yield FileSearchHit(
            file_id=text_of(hit, "file_id"),
            filename=text_of(hit, "filename"),
            text=text_of(hit, "text"),
            score=maybe_float(hit, "score"),
            attributes={
                key: value
                for key, value in attributes.items()
                if isinstance(value, str | int | float)
            },
            vector_store_id=maybe_text(hit, "vector_store_id"),
        )
