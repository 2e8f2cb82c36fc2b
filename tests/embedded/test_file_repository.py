"""`/v1/files` over the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import APIStatusError, BadRequestError, NotFoundError

from tests.embedded.scripted_provider import Puppet, served
from tests.embedded.tools.hosted_calls import Clock, python
from toolcrib.embedded import EmbeddedProvider


async def test_a_file_is_kept_listed_read_and_deleted(tmp_path: Path) -> None:
    """The whole life of a file; its bytes lie under a name of the provider's own."""
    async with served(python, data=tmp_path) as (client, _):
        made = await client.files.create(file=("a b.txt", b"hello"), purpose="user_data")
        await client.files.create(file=("c.txt", b"x"), purpose="vision")
        listed = [each.id async for each in client.files.list(purpose="user_data")]
        found = await client.files.retrieve(made.id)
        content = (await client.files.content(made.id)).read()
        kept = sorted(each.name for each in (tmp_path / "files").iterdir())
        deleted = await client.files.delete(made.id)
        with pytest.raises(NotFoundError, match=made.id):
            await client.files.content(made.id)
    assert made == found
    assert (made.filename, made.bytes, made.purpose) == ("a b.txt", 5, "user_data")
    assert listed == [made.id]
    assert content == b"hello"
    assert made.id in kept
    assert deleted.deleted
    assert not (tmp_path / "files" / made.id).exists()


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\x\\plan.pdf", "plan.pdf"),
        ("..", "file"),
        ("a\u202etxt.exe", "atxt.exe"),
    ],
)
async def test_names_are_made_safe(name: str, kept: str) -> None:
    """What could be taken for a path or for another name is not kept."""
    async with served(python) as (client, _):
        made = await client.files.create(file=(name, b"x"), purpose="user_data")
    assert made.filename.replace("_", "") == kept


async def test_a_long_name_keeps_its_ending() -> None:
    """By which it is read later."""
    async with served(python) as (client, _):
        made = await client.files.create(file=("ü" * 300 + ".md", b"x"), purpose="user_data")
    assert made.filename.endswith("ü.md")
    assert len(made.filename.encode()) <= 200


async def test_a_download_is_never_a_page() -> None:
    """A browser that is led to it saves it, whatever is in it."""
    async with served(python) as (client, _):
        made = await client.files.create(
            file=('x".html', b"<script>1</script>"), purpose="user_data"
        )
        answer = await client.files.content(made.id)
    headers = answer.response.headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"].startswith("attachment;")
    assert headers["x-content-type-options"] == "nosniff"


async def test_a_file_is_gone_after_its_time(tmp_path: Path) -> None:
    """It cannot be had any more, and its bytes go when the next file comes."""
    clock = Clock()
    async with served(python, data=tmp_path, clock=clock) as (client, _):
        made = await client.files.create(
            file=("a", b"x"),
            purpose="user_data",
            expires_after={"anchor": "created_at", "seconds": 3600},
        )
        assert made.expires_at == int(clock.now) + 3600
        clock.now += 3600
        with pytest.raises(NotFoundError):
            await client.files.retrieve(made.id)
        assert (await client.files.list()).data == []
        await client.files.create(file=("b", b"x"), purpose="user_data")
        assert not (tmp_path / "files" / made.id).exists()


@pytest.mark.parametrize(
    "options",
    [
        {"purpose": "nonsense"},
        {"purpose": "user_data", "expires_after": {"anchor": "created_at", "seconds": 5}},
        {"purpose": "user_data", "expires_after": {"anchor": "last_active_at", "seconds": 3600}},
    ],
)
async def test_terms_that_are_wrong_are_refused(options: dict[str, Any]) -> None:
    """And nothing is kept."""
    async with served(python) as (client, _):
        with pytest.raises(BadRequestError):
            await client.files.create(file=("a", b"x"), **options)
        assert (await client.files.list()).data == []


@pytest.mark.parametrize("most", [10, 2000])
async def test_a_file_that_is_too_large_is_refused(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its size is only seen at the end, or it is cut off on the way."""
    monkeypatch.setattr("toolcrib.embedded.http.bodies.MAX_BYTES", most)
    monkeypatch.setattr("toolcrib.embedded.http.bodies._MAX_AROUND", 1000)
    async with served(python) as (client, _):
        with pytest.raises(APIStatusError, match=f"larger than {most} bytes") as caught:
            await client.files.create(file=("a", b"x" * (most + 1500)), purpose="user_data")
        with pytest.raises(APIStatusError, match="larger than"):
            await client.files.create(file=("a", b"x" * (most + 1)), purpose="user_data")
        assert (await client.files.list()).data == []
    assert caught.value.status_code == 413


async def test_an_endless_upload_is_cut_off_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider does not take in what it will refuse."""
    monkeypatch.setattr("toolcrib.embedded.http.bodies.MAX_BYTES", 5000)
    monkeypatch.setattr("toolcrib.embedded.http.bodies._MAX_AROUND", 1000)
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
        while sent < 100:
            sent += 1
            yield b"x" * 1000

    headers = {"content-type": "multipart/form-data; boundary=x"}
    async with EmbeddedProvider(Puppet(python)) as provider:
        transport = httpx2.ASGITransport(app=provider.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://local") as client:
            answer = await client.post("/v1/files", content=pieces(), headers=headers)
    assert answer.status_code == 413
    assert sent < 10


async def test_a_form_that_is_none_is_the_clients_fault() -> None:
    """Never a failure of the provider."""
    headers = {"content-type": "multipart/form-data; boundary=x"}
    async with EmbeddedProvider(Puppet(python)) as provider:
        transport = httpx2.ASGITransport(app=provider.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://local") as client:
            for content in (b"nonsense", b"--x\r\n\r\n", b"", b"--x\r\nno: no\r\n\r\nx\r\n--x--"):
                answer = await client.post("/v1/files", content=content, headers=headers)
                assert answer.status_code == 400
                assert answer.json()["error"]["type"] == "invalid_request_error"
            assert (await client.post("/v1/files", json={"purpose": "x"})).status_code == 400


async def test_lists_have_pages() -> None:
    """The client's own iteration sees every file once, the newest first."""
    async with served(python) as (client, _):
        made = [
            (await client.files.create(file=(str(n), b"x"), purpose="user_data")).id
            for n in range(5)
        ]
        seen = [each.id async for each in client.files.list(limit=2)]
        rising = [each.id async for each in client.files.list(limit=2, order="asc")]
    assert seen == made[::-1]
    assert rising == made
