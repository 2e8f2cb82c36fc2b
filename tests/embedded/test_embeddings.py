"""Embeddings of the provider, asked for with the official client."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from openai import BadRequestError, InternalServerError, NotFoundError

from tests.embedded.scripted_provider import served
from toolcrib.embedded import BackendText
from toolcrib.embedded.search import MiniLmEmbedder, embedder
from toolcrib.errors import UsageError

pytestmark = pytest.mark.wire
MODEL = MiniLmEmbedder.name


def nothing(_: object) -> list[BackendText]:
    return []


async def test_texts_become_vectors_that_can_be_compared() -> None:
    async with served(nothing, embedder=MiniLmEmbedder()) as (client, _):
        answer = await client.embeddings.create(
            model=MODEL, input=["boil water", "heat some liquid", "tax law"]
        )
        raw: Any = client.embeddings.with_raw_response
        floats = (
            await raw.create(model=MODEL, input="boil water", encoding_format="float")
        ).parse()

    first, near, far = [entry.embedding for entry in answer.data]
    assert [entry.index for entry in answer.data] == [0, 1, 2]
    assert (len(first), answer.model) == (384, MODEL)
    assert math.isclose(math.hypot(*first), 1, rel_tol=1e-3)
    assert sum(map(math.prod, zip(first, near, strict=True))) > sum(
        map(math.prod, zip(first, far, strict=True))
    )
    # Other texts of the batch only change the padding.
    assert floats.data[0].embedding == pytest.approx(first, abs=0.02)
    # "boil water" and its two marks.
    assert floats.usage.prompt_tokens == 4
    assert answer.usage.total_tokens > 8


async def test_a_text_that_is_cut_is_named() -> None:
    async with served(nothing, embedder=MiniLmEmbedder()) as (client, _):
        raw: Any = client.embeddings.with_raw_response
        answer = await raw.create(model=MODEL, input=["short", "word " * 300])

    assert answer.headers["toolcrib-warning"] == (
        "only the first 256 tokens were embedded of input 1"
    )
    assert answer.parse().usage.prompt_tokens > 300


async def test_the_list_of_models_names_the_embedder() -> None:
    async with served(nothing, embedder=MiniLmEmbedder()) as (client, _):
        listed = [model.id async for model in client.models.list()]
        found = await client.models.retrieve(MODEL)

    assert listed == ["puppet", MODEL]
    assert found.id == MODEL


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"input": ""}, "input"),
    ({"input": []}, "input"),
    ({"input": ["x", ""]}, "input"),
    ({"input": [1, 2, 3]}, "input"),
    ({"input": [[1, 2], [3]]}, "input"),
    ({"input": ["x"] * 2049}, "input"),
    ({"dimensions": 100}, "dimensions"),
    ({"encoding_format": "wax"}, "encoding_format"),
]


@pytest.mark.parametrize(("options", "param"), INVALID)
async def test_an_invalid_request_is_refused(options: dict[str, Any], param: str) -> None:
    async with served(nothing, embedder=MiniLmEmbedder()) as (client, _):
        create: Any = client.embeddings.create
        with pytest.raises(BadRequestError) as refused:
            await create(**{"model": MODEL, "input": "x", **options})

    assert str(refused.value.param).startswith(param)


async def test_another_model_or_none_is_refused_with_what_to_do() -> None:
    async with served(nothing, embedder=MiniLmEmbedder()) as (client, _):
        with pytest.raises(NotFoundError, match=f"there is {MODEL}"):
            await client.embeddings.create(model="text-embedding-3-small", input="x")
    async with served(nothing) as (client, _):
        with pytest.raises(NotFoundError, match="embedder=MiniLmEmbedder"):
            await client.embeddings.create(model=MODEL, input="x")


async def test_a_missing_extra_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> Any:
        raise UsageError(f"embeddings need {module}; run: pip install 'toolcrib[search]'")

    monkeypatch.setattr(embedder, "_required", missing)
    async with served(nothing, embedder=MiniLmEmbedder()) as (client, _):
        with pytest.raises(InternalServerError, match="toolcrib") as refused:
            await client.embeddings.create(model=MODEL, input="x")

    assert refused.value.status_code == 503


class Plain:
    """An embedder of one's own, which counts no tokens."""

    name, size = "plain", 2

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [struct.pack("<2f", 1.0, 0.0) for _ in texts]


async def test_an_embedder_of_ones_own_is_used() -> None:
    async with served(nothing, embedder=Plain()) as (client, _):
        answer = await client.embeddings.create(model="plain", input="12345678", dimensions=2)

    assert answer.data[0].embedding == [1.0, 0.0]
    assert answer.usage.prompt_tokens == 2
