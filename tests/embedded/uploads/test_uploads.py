"""Uploads in parts, with the official client."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, AsyncOpenAI, BadRequestError, NotFoundError

from tests.embedded.principals import shared_provider
from tests.embedded.scripted_provider import Puppet
from tests.embedded.tools.hosted_calls import Clock
from toolcrib.embedded import BackendText, EmbeddedProvider
from toolcrib.embedded.uploads import repository
from toolcrib.embedded.uploads.upload import LIFETIME_SECONDS

pytestmark = pytest.mark.wire
DATA = b"first half, second half"


def nothing(_: object) -> list[BackendText]:
    return []


@asynccontextmanager
async def provider(folder: Path, **options: Any) -> AsyncGenerator[AsyncOpenAI]:
    async with EmbeddedProvider(Puppet(nothing), data=folder, **options) as started:
        yield started.client()


async def begin(client: AsyncOpenAI, **options: Any) -> str:
    announced = {"bytes": len(DATA), "filename": "notes.txt", "mime_type": "text/plain"}
    create: Any = client.uploads.create
    upload = await create(**{**announced, "purpose": "user_data", **options})
    assert (upload.status, upload.object) == ("pending", "upload")
    return upload.id


async def part(client: AsyncOpenAI, upload_id: str, data: bytes) -> str:
    return (await client.uploads.parts.create(upload_id, data=data)).id


def parts_left(folder: Path) -> int:
    return len(list((folder / "uploads").iterdir()))


async def test_parts_in_the_wanted_order_become_a_file(tmp_path: Path) -> None:
    async with provider(tmp_path) as client:
        upload_id = await begin(client, expires_after={"anchor": "created_at", "seconds": 7200})
        late, early = await asyncio.gather(
            part(client, upload_id, DATA[10:]), part(client, upload_id, DATA[:10])
        )
        done = await client.uploads.complete(
            upload_id, part_ids=[early, late], md5=hashlib.md5(DATA).hexdigest()
        )
        assert done.file is not None
        content = await client.files.content(done.file.id)
        listed = [file.id async for file in client.files.list()]

    assert (done.status, content.content) == ("completed", DATA)
    assert (done.file.filename, done.file.bytes, done.file.purpose) == (
        "notes.txt",
        len(DATA),
        "user_data",
    )
    assert done.file.expires_at == done.file.created_at + 7200
    assert listed == [done.file.id]
    assert parts_left(tmp_path) == 0


async def test_the_helper_of_the_sdk_uploads_in_chunks(tmp_path: Path) -> None:
    async with provider(tmp_path) as client:
        done = await client.uploads.upload_file_chunked(
            file=DATA,
            filename="notes.txt",
            bytes=len(DATA),
            mime_type="text/plain",
            purpose="assistants",
            part_size=10,
        )
        assert done.file is not None
        content = await client.files.content(done.file.id)

    assert content.content == DATA


async def test_a_file_that_is_not_as_announced_is_refused(tmp_path: Path) -> None:
    async with provider(tmp_path) as client:
        upload_id = await begin(client)
        first = await part(client, upload_id, DATA[:10])
        uploads = client.uploads
        with pytest.raises(BadRequestError, match="10 bytes"):
            await uploads.complete(upload_id, part_ids=[first])
        with pytest.raises(BadRequestError, match="twice"):
            await uploads.complete(upload_id, part_ids=[first, first])
        with pytest.raises(BadRequestError, match="no part"):
            await uploads.complete(upload_id, part_ids=["part_unknown"])
        with pytest.raises(BadRequestError, match="more than the"):
            await part(client, upload_id, DATA)
        second = await part(client, upload_id, DATA[10:])
        with pytest.raises(BadRequestError, match="MD5"):
            await uploads.complete(upload_id, part_ids=[first, second], md5="0" * 32)
        listed = [file.id async for file in client.files.list()]
        done = await uploads.complete(upload_id, part_ids=[first, second])

    assert listed == []
    assert done.status == "completed"


async def test_a_part_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "MAX_PART_BYTES", 5)
    async with provider(tmp_path) as client:
        upload_id = await begin(client)
        with pytest.raises(APIStatusError) as refused:
            await part(client, upload_id, DATA[:6])

    assert refused.value.status_code == 413


async def test_an_ended_upload_takes_nothing_more(tmp_path: Path) -> None:
    clock = Clock()
    async with provider(tmp_path, clock=clock) as client:
        cancelled, expired = await begin(client), await begin(client)
        for upload_id in (cancelled, expired):
            await part(client, upload_id, DATA[:10])
        assert (await client.uploads.cancel(cancelled)).status == "cancelled"
        clock.now += LIFETIME_SECONDS
        for upload_id, word in ((cancelled, "cancelled"), (expired, "expired")):
            with pytest.raises(BadRequestError, match=word):
                await part(client, upload_id, DATA[:10])
            with pytest.raises(BadRequestError, match=word):
                await client.uploads.complete(upload_id, part_ids=["x"])
            with pytest.raises(BadRequestError, match=word):
                await client.uploads.cancel(upload_id)
        before = parts_left(tmp_path)
        await begin(client)

    assert (before, parts_left(tmp_path)) == (1, 0)


INVALID: list[dict[str, Any]] = [
    {"bytes": 0},
    {"bytes": 512 * 1024 * 1024 + 1},
    {"filename": ""},
    {"purpose": "decoration"},
    {"expires_after": {"anchor": "created_at", "seconds": 1}},
]


@pytest.mark.parametrize("options", INVALID)
async def test_an_invalid_announcement_is_refused(tmp_path: Path, options: Any) -> None:
    async with provider(tmp_path) as client:
        with pytest.raises(BadRequestError) as refused:
            await begin(client, **options)

    assert str(refused.value.param).startswith(next(iter(options)))


async def test_an_admin_completes_the_upload_of_its_principal() -> None:
    """The file belongs to who began the upload."""
    async with shared_provider(nothing) as shared:
        alice, ada = shared.client("alice"), shared.client("ada")
        upload_id = await begin(alice)
        one = await part(alice, upload_id, DATA)
        done = await ada.uploads.complete(upload_id, part_ids=[one])
        assert done.file is not None
        found = await alice.files.retrieve(done.file.id)
        with pytest.raises(NotFoundError):
            await shared_file(shared.client("bob"), done.file.id)
        await alice.close()
        await ada.close()

    assert found.id == done.file.id


async def shared_file(client: AsyncOpenAI, file_id: str) -> None:
    async with client:
        await client.files.retrieve(file_id)
