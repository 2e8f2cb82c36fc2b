"""Search in vector stores, and filters on the attributes of files."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.search.index import DEFAULT_RANK_WEIGHTS, RankWeights

if TYPE_CHECKING:
    from toolcrib.embedded.vector_stores.repository import VectorStoreRepository
    from toolcrib.embedded.vector_stores.store import VectorStore, VectorStoreFile


Attributes = Mapping[str, str | float | bool]
Filter = Callable[[Attributes], bool]

_DEEPEST: Final = 16
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def read_filter(config: object, param: str, depth: int = 0) -> Filter:
    """Read a filter into a predicate. The `ApiFault` names the invalid part."""
    if config is None:
        return lambda attributes: True
    if not isinstance(config, dict) or depth > _DEEPEST:
        raise invalid("A filter must be an object, nested at most 16 deep.", param)
    facts = cast(dict[str, Any], config)
    if facts.get("type") in ("and", "or"):
        return _compound(facts, param, depth)
    return _comparison(facts, param)


def _compound(facts: Mapping[str, Any], param: str, depth: int) -> Filter:
    members = facts.get("filters")
    if not isinstance(members, list) or not members:
        raise invalid("A compound filter needs a list of filters.", f"{param}.filters")
    listed = cast(list[object], members)
    filters = [
        read_filter(inner, f"{param}.filters[{at}]", depth + 1) for at, inner in enumerate(listed)
    ]
    combine = all if facts["type"] == "and" else any
    return lambda attributes: combine(accepts(attributes) for accepts in filters)


def _comparison(facts: Mapping[str, Any], param: str) -> Filter:
    kind, key, value = facts.get("type"), facts.get("key"), facts.get("value")
    if not isinstance(key, str):
        raise invalid("A comparison needs a key.", f"{param}.key")
    match kind:
        case "eq" | "ne":
            _check_scalar(value, f"{param}.value")
            return lambda attributes: _equal(attributes.get(key), value) == (kind == "eq")
        case "in" | "nin":
            if not isinstance(value, list):
                raise invalid("'in' and 'nin' need a list.", f"{param}.value")
            listed = cast(list[Any], value)
            return lambda attributes: (
                any(_equal(attributes.get(key), value) for value in listed) == (kind == "in")
            )
        case "gt" | "gte" | "lt" | "lte":
            _check_scalar(value, f"{param}.value")
            return lambda attributes: _ordered(_ORDERS[kind], attributes.get(key), value)
        case _:
            raise invalid(f"Unknown type of filter: {str(kind)[:80]!r}.", f"{param}.type")


def _check_scalar(value: object, param: str) -> None:
    if not isinstance(value, str | int | float | bool):
        raise invalid("The value must be text, a number or a boolean.", param)


def _equal(have: Any, value: Any) -> bool:
    """Equality in which true is not 1."""
    return isinstance(have, bool) == isinstance(value, bool) and have == value


def _ordered(compare: Callable[[Any, Any], bool], have: Any, value: Any) -> bool:
    """Compare two values; False if the attribute is missing or of another type."""
    if isinstance(have, bool) or isinstance(value, bool):
        return False
    if isinstance(have, str) != isinstance(value, str) or have is None:
        return False
    return compare(have, value)


MAX_RESULTS: Final = 50
DEFAULT_RESULTS: Final = 20


@dataclass(frozen=True, slots=True)
class FileSearchOptions:
    """The options of a search."""

    most: int
    passes: Filter
    threshold: float
    weights: RankWeights


@dataclass(frozen=True, slots=True)
class FileMatch:
    """A chunk of a file that matches."""

    file: VectorStoreFile
    text: str
    score: float


def read_search_options(config: Mapping[str, Any], param: str) -> FileSearchOptions:
    """Read the options of a request. Raises `ApiFault`."""
    most = config.get("max_num_results")
    if most is not None and not (type(most) is int and 1 <= most <= MAX_RESULTS):
        raise invalid(
            f"'max_num_results' must be from 1 to {MAX_RESULTS}.", f"{param}.max_num_results"
        )
    ranking: object = config.get("ranking_options") or dict[str, Any]()
    if not isinstance(ranking, dict):
        raise invalid("'ranking_options' must be an object.", f"{param}.ranking_options")
    options = cast(dict[str, Any], ranking)
    return FileSearchOptions(
        most or DEFAULT_RESULTS,
        read_filter(config.get("filters"), f"{param}.filters"),
        _fraction(options.get("score_threshold"), f"{param}.ranking_options.score_threshold"),
        _weights(options.get("hybrid_search"), f"{param}.ranking_options.hybrid_search"),
    )


async def search_files(
    stores: VectorStoreRepository,
    chosen: Sequence[VectorStore],
    queries: Sequence[str],
    options: FileSearchOptions,
) -> list[FileMatch]:
    """The best chunks for any of the queries, each once, best first."""
    best: dict[int, FileMatch] = {}
    for store in chosen:
        await stores.touch(store)
        files = {file.file_id: file for file in await stores.files.list(store)}
        passing = {name for name, file in files.items() if options.passes(file.attributes)}
        for query in queries:
            hits = await stores.index.search(
                store.id, query, options.most, documents=passing, weights=options.weights
            )
            for hit in hits:
                known = best.get(hit.chunk_id)
                if known is None or known.score < hit.score:
                    best[hit.chunk_id] = FileMatch(files[hit.document], hit.text, hit.score)
    ranked = sorted(best.values(), key=lambda match: -match.score)
    return [match for match in ranked if match.score >= options.threshold][: options.most]


def _fraction(value: object, param: str) -> float:
    if value is None:
        return 0.0
    if not _is_number(value) or not 0 <= value <= 1:
        raise invalid("The threshold must be from 0 to 1.", param)
    return float(value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _weights(config: object, param: str) -> RankWeights:
    if config is None:
        return DEFAULT_RANK_WEIGHTS
    facts = cast(dict[str, Any], config) if isinstance(config, dict) else {}
    text, meaning = facts.get("text_weight"), facts.get("embedding_weight")
    if not _is_number(text) or not _is_number(meaning):
        raise invalid("Both 'embedding_weight' and 'text_weight' must be numbers.", param)
    if min(text, meaning) < 0 or text + meaning <= 0:
        raise invalid("The weights must not be negative, and not both zero.", param)
    return RankWeights(float(text), float(meaning))
