"""Searching vector stores, as the tool and the API do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from toolcrib.local.faults import invalid
from toolcrib.local.search.index import DEFAULT_WEIGHTS, Weights
from toolcrib.local.vector_stores.filters import Filter, read_filter

if TYPE_CHECKING:
    from toolcrib.local.vector_stores.shelf import VectorStores
    from toolcrib.local.vector_stores.store import StoreFile, VectorStore

MOST_RESULTS: Final = 50
DEFAULT_RESULTS: Final = 20


@dataclass(frozen=True, slots=True)
class Terms:
    """What a search wants."""

    most: int
    passes: Filter
    threshold: float
    weights: Weights


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk of a file that fits."""

    file: StoreFile
    text: str
    score: float


def read_terms(config: Mapping[str, Any], param: str) -> Terms:
    """The terms of a request. Raises `ApiFault`."""
    most = config.get("max_num_results")
    if most is not None and not (type(most) is int and 1 <= most <= MOST_RESULTS):
        raise invalid(
            f"'max_num_results' must be from 1 to {MOST_RESULTS}.", f"{param}.max_num_results"
        )
    ranking: object = config.get("ranking_options") or dict[str, Any]()
    if not isinstance(ranking, dict):
        raise invalid("'ranking_options' must be an object.", f"{param}.ranking_options")
    options = cast(dict[str, Any], ranking)
    return Terms(
        most or DEFAULT_RESULTS,
        read_filter(config.get("filters"), f"{param}.filters"),
        _fraction(options.get("score_threshold"), f"{param}.ranking_options.score_threshold"),
        _weights(options.get("hybrid_search"), f"{param}.ranking_options.hybrid_search"),
    )


async def find(
    stores: VectorStores, chosen: Sequence[VectorStore], queries: Sequence[str], terms: Terms
) -> list[Found]:
    """The chunks that fit any of the queries best, each once."""
    best: dict[int, Found] = {}
    for store in chosen:
        await stores.touch(store)
        files = {file.file_id: file for file in await stores.files.list(store)}
        passing = {name for name, file in files.items() if terms.passes(file.attributes)}
        for query in queries:
            hits = await stores.index.search(
                store.id, query, terms.most, documents=passing, weights=terms.weights
            )
            for hit in hits:
                known = best.get(hit.chunk_id)
                if known is None or known.score < hit.score:
                    best[hit.chunk_id] = Found(files[hit.document], hit.text, hit.score)
    ranked = sorted(best.values(), key=lambda found: -found.score)
    return [each for each in ranked if each.score >= terms.threshold][: terms.most]


def _fraction(value: object, param: str) -> float:
    if value is None:
        return 0.0
    if not _is_number(value) or not 0 <= value <= 1:
        raise invalid("The threshold must be from 0 to 1.", param)
    return float(value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _weights(told: object, param: str) -> Weights:
    if told is None:
        return DEFAULT_WEIGHTS
    facts = cast(dict[str, Any], told) if isinstance(told, dict) else {}
    text, meaning = facts.get("text_weight"), facts.get("embedding_weight")
    if not _is_number(text) or not _is_number(meaning):
        raise invalid("Both 'embedding_weight' and 'text_weight' must be numbers.", param)
    if min(text, meaning) < 0 or text + meaning <= 0:
        raise invalid("The weights must not be negative, and not both zero.", param)
    return Weights(float(text), float(meaning))
