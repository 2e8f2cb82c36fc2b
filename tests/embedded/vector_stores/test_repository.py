"""`/v1/vector_stores` over the official client."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from tests.embedded.scripted_provider import Puppet, served
from tests.embedded.tools.hosted_calls import Clock, python, until
from tests.helpers.patience import PATIENCE
from toolcrib.embedded import EmbeddedProvider


async def upload(client: AsyncOpenAI, name: str, text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    return (await client.files.create(file=(name, data), purpose="assistants")).id


async def read(client: AsyncOpenAI, store_id: str) -> Any:
    """The store, once nothing of it is being read."""
    store = await client.vector_stores.retrieve(store_id)
    while store.status == "in_progress":
        store = await client.vector_stores.retrieve(store_id)
    return store


async def found(client: AsyncOpenAI, store_id: str, query: Any, **options: Any) -> list[str]:
    results = await client.vector_stores.search(store_id, query=query, **options)
    return [each.filename for each in results.data]


async def test_a_store_is_made_changed_listed_and_deleted() -> None:
    """The whole life of a store; its files stay."""
    async with served(python) as (client, _):
        file_id = await upload(client, "a.md", "kettle")
        made = await client.vector_stores.create(
            name="s",
            file_ids=[file_id],
            metadata={"team": "a"},
            expires_after={"anchor": "last_active_at", "days": 2},
        )
        store = await read(client, made.id)
        changed = await client.vector_stores.update(
            made.id, name="t", expires_after={"anchor": "last_active_at", "days": 3}
        )
        listed = [each.id async for each in client.vector_stores.list()]
        deleted = await client.vector_stores.delete(made.id)
        with pytest.raises(NotFoundError, match=made.id):
            await client.vector_stores.retrieve(made.id)
        await client.files.retrieve(file_id)
    assert (store.status, store.file_counts.completed, store.usage_bytes) == ("completed", 1, 6)
    assert (changed.name, changed.metadata) == ("t", {"team": "a"})
    assert changed.expires_after is not None
    assert changed.expires_after.days == 3
    assert listed == [made.id]
    assert deleted.deleted


async def test_files_of_a_store() -> None:
    """Added, described, read back, removed; the file itself stays."""
    async with served(python) as (client, _):
        store = await client.vector_stores.create()
        files = client.vector_stores.files
        file_id = await upload(client, "a.html", "<p>kettle &amp; pot")
        added = await files.create_and_poll(
            file_id, vector_store_id=store.id, attributes={"year": 2024}, poll_interval_ms=1
        )
        other = await files.update(file_id, vector_store_id=store.id, attributes={"year": 2025})
        content = (await files.content(file_id, vector_store_id=store.id)).data
        listed = [each.id async for each in files.list(store.id, filter="completed")]
        none = [each.id async for each in files.list(store.id, filter="failed")]
        await files.delete(file_id, vector_store_id=store.id)
        assert await found(client, store.id, "kettle") == []
        with pytest.raises(NotFoundError):
            await files.retrieve(file_id, vector_store_id=store.id)
        await client.files.retrieve(file_id)
    assert (added.status, added.attributes) == ("completed", {"year": 2024})
    assert other.attributes == {"year": 2025}
    assert [each.text for each in content] == ["kettle & pot"]
    assert (listed, none) == ([file_id], [])


async def test_a_batch_of_files() -> None:
    """With options for all or for each, and with the ones that could not be read."""
    async with served(python) as (client, _):
        store = await client.vector_stores.create()
        batches = client.vector_stores.file_batches
        good = [await upload(client, f"{n}.md", f"kettle {n}") for n in range(3)]
        bad = await upload(client, "x.png", b"\x89PNG")
        batch = await batches.create_and_poll(
            store.id, file_ids=[*good, bad], attributes={"set": "a"}, poll_interval_ms=1
        )
        failed = [
            each
            async for each in batches.list_files(
                batch.id, vector_store_id=store.id, filter="failed"
            )
        ]
        each_own = await batches.create(
            store.id, files=[{"file_id": good[0], "attributes": {"set": "b"}}]
        )
        await read(client, store.id)
        b_only = await found(
            client, store.id, "kettle", filters={"type": "eq", "key": "set", "value": "b"}
        )
        with pytest.raises(NotFoundError):
            await batches.retrieve("vsfb_none", vector_store_id=store.id)
        with pytest.raises(NotFoundError):
            await batches.create(store.id, file_ids=[good[1], "file_none"])
    assert (batch.file_counts.completed, batch.file_counts.failed) == (3, 1)
    assert [each.id for each in failed] == [bad]
    assert failed[0].last_error is not None
    assert "'.png' are not supported" in failed[0].last_error.message
    assert each_own.file_counts.total == 1
    assert b_only == ["0.md"]


class Slow:
    """An embedder that waits until it is let go on."""

    name, size = "slow", 2

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        import numpy as np

        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        return [np.array([1, 0]).astype("<f4").tobytes() for _ in texts]


async def test_a_batch_that_is_called_off_is_not_found() -> None:
    """Also when a file of it was being read at that moment."""
    slow = Slow()
    async with served(python, embedder=slow) as (client, _):
        store = await client.vector_stores.create()
        file_id = await upload(client, "a.md", "kettle")
        batches = client.vector_stores.file_batches
        batch = await batches.create(store.id, file_ids=[file_id])
        await until(slow.begun.is_set)
        cancelled = await batches.cancel(batch.id, vector_store_id=store.id)
        slow.go_on.set()
        again = await client.vector_stores.create(file_ids=[await upload(client, "b.md", "pot")])
        await read(client, again.id)
        assert await found(client, store.id, "kettle") == []
    assert (cancelled.status, cancelled.file_counts.cancelled) == ("cancelled", 1)


async def test_what_was_being_read_is_read_after_a_restart(tmp_path: Path) -> None:
    """A provider that stops in the middle goes on where it was."""
    slow = Slow()
    async with EmbeddedProvider(Puppet(python), data=tmp_path, embedder=slow) as provider:
        client = provider.client()
        file_id = await upload(client, "a.md", "kettle")
        store = await client.vector_stores.create(file_ids=[file_id])
        await until(slow.begun.is_set)
    slow.go_on.set()
    async with EmbeddedProvider(Puppet(python), data=tmp_path) as provider:
        client = provider.client()
        after = await read(client, store.id)
        assert await found(client, store.id, "kettle") == ["a.md"]
    assert after.file_counts.completed == 1


async def test_a_deleted_file_leaves_every_store() -> None:
    """What a client deletes cannot be found any more; nor what expired."""
    clock = Clock()
    async with served(python, clock=clock) as (client, _):
        gone = await upload(client, "gone.md", "kettle")
        brief = await client.files.create(
            file=("brief.md", b"kettle"),
            purpose="assistants",
            expires_after={"anchor": "created_at", "seconds": 3600},
        )
        store = await client.vector_stores.create(file_ids=[gone, brief.id])
        await read(client, store.id)
        await client.files.delete(gone)
        assert await found(client, store.id, "kettle") == ["brief.md"]
        clock.now += 3601
        await upload(client, "new.md", "pot")
        assert await found(client, store.id, "kettle") == []
        assert (await client.vector_stores.retrieve(store.id)).file_counts.total == 0


async def test_a_store_expires_when_it_is_not_used() -> None:
    """A search begins its time anew; an expired one is told as such, and is not searched."""
    clock = Clock()
    day = 86_400
    async with served(python, clock=clock) as (client, _):
        store = await client.vector_stores.create(
            file_ids=[await upload(client, "a.md", "kettle")],
            expires_after={"anchor": "last_active_at", "days": 1},
        )
        await read(client, store.id)
        clock.now += day - 1
        assert await found(client, store.id, "kettle") == ["a.md"]
        clock.now += day
        assert (await client.vector_stores.retrieve(store.id)).status == "expired"
        with pytest.raises(BadRequestError, match="is expired"):
            await client.vector_stores.search(store.id, query="kettle")
        await client.vector_stores.create()
        assert (await client.vector_stores.retrieve(store.id)).file_counts.total == 0


async def test_filters_thresholds_and_numbers_of_results() -> None:
    """Each narrows what is found; a score is between 0 and 1 and falls."""
    async with served(python) as (client, _):
        store = await client.vector_stores.create()
        for n in range(5):
            await client.vector_stores.files.create_and_poll(
                await upload(client, f"{n}.md", "kettle " * (n + 1) + "filler " * 20),
                vector_store_id=store.id,
                attributes={"n": n},
                poll_interval_ms=1,
            )
        results = (await client.vector_stores.search(store.id, query=["kettle", "pot"])).data
        two = await found(client, store.id, "kettle", max_num_results=2)
        high = await found(
            client, store.id, "kettle", filters={"type": "gte", "key": "n", "value": 3}
        )
        first = await found(client, store.id, "kettle", ranking_options={"score_threshold": 1.0})
        with pytest.raises(BadRequestError):
            await client.vector_stores.search(store.id, query="x", max_num_results=51)
        with pytest.raises(BadRequestError):
            await client.vector_stores.search(store.id, query="")
        with pytest.raises(BadRequestError):
            await found(client, store.id, "x", ranking_options={"score_threshold": 2})
    scores = [each.score for each in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert len(results) == 5
    assert len(two) == 2
    assert set(high) == {"3.md", "4.md"}
    assert len(first) == 1


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "static", "static": {"max_chunk_size_tokens": 99, "chunk_overlap_tokens": 0}},
        {"type": "static", "static": {"max_chunk_size_tokens": 5000, "chunk_overlap_tokens": 0}},
        {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 51}},
        {"type": "static", "static": {"max_chunk_size_tokens": True, "chunk_overlap_tokens": 0}},
        {"type": "static"},
        {"type": "other"},
    ],
)
async def test_a_chunking_that_cannot_be_is_refused(strategy: Any) -> None:
    """Before anything is made."""
    async with served(python) as (client, _):
        with pytest.raises(BadRequestError) as caught:
            await client.vector_stores.create(chunking_strategy=strategy)
        assert (await client.vector_stores.list()).data == []
    assert caught.value.param == "chunking_strategy"


async def test_chunking_is_as_asked() -> None:
    """A static size is kept and told; without one it is the usual."""
    text = " ".join(f"Sentence {n} is here." for n in range(100))
    async with served(python) as (client, _):
        store = await client.vector_stores.create()
        small: Any = {
            "type": "static",
            "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 10},
        }
        files = client.vector_stores.files
        file_id = await upload(client, "a.md", text)
        made = await files.create_and_poll(
            file_id, vector_store_id=store.id, chunking_strategy=small, poll_interval_ms=1
        )
        results = (await client.vector_stores.search(store.id, query="sentence")).data
        usual = await files.create(store.id, file_id=await upload(client, "b.md", "x"))
    assert made.chunking_strategy is not None
    assert made.chunking_strategy.model_dump() == small
    assert usual.chunking_strategy is not None
    assert usual.chunking_strategy.model_dump()["static"] == {
        "max_chunk_size_tokens": 800,
        "chunk_overlap_tokens": 400,
    }
    assert len(results) > 3
    assert all(len(each.content[0].text) <= 400 for each in results)


@pytest.mark.parametrize(
    "attributes",
    [{"a": None}, {"a": [1]}, {"a": "x" * 513}, {"k" * 65: 1}, {str(n): n for n in range(17)}, "a"],
)
async def test_attributes_that_cannot_be_are_refused(attributes: Any) -> None:
    """At most sixteen, short, and of simple types."""
    async with served(python) as (client, _):
        store = await client.vector_stores.create()
        file_id = await upload(client, "a.md", "x")
        with pytest.raises(BadRequestError, match="ttribute"):
            await client.vector_stores.files.create(
                store.id, file_id=file_id, attributes=attributes
            )
        assert (await client.vector_stores.files.list(store.id)).data == []
