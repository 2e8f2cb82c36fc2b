"""Uploaded files in an S3-compatible store, shared by two providers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, NotFoundError

from tests.embedded.scripted_provider import served
from tests.embedded.tools.hosted_calls import python
from tests.servers.seaweedfs import s3_server
from toolcrib.embedded.s3_files import S3Files
from toolcrib.errors import UsageError


@pytest.fixture(scope="module")
def access() -> Iterator[dict[str, Any]]:
    with s3_server() as options:
        yield options


def keys(access: dict[str, Any], prefix: str) -> list[str]:
    boto3: Any = import_module("boto3")
    listed = boto3.client("s3", **access).list_objects_v2(Bucket="crib", Prefix=prefix)
    return [entry["Key"] for entry in listed.get("Contents", ())]


def boxed(access: dict[str, Any], name: str, **options: Any) -> S3Files:
    return S3Files(f"s3://crib/{name}", **options, **access)


async def test_a_file_is_read_at_another_provider(access: dict[str, Any], tmp_path: Path) -> None:
    """What one replica took is listed, read, given to code and deleted at another one, also when
    the first is gone.
    """
    async with served(python, data=tmp_path / "a", shared_files=boxed(access, "read")) as (here, _):
        made = await here.files.create(file=("a.txt", b"hello"), purpose="user_data")
    async with served(python, data=tmp_path / "b", shared_files=boxed(access, "read")) as (
        there,
        _,
    ):
        listed = [each.id async for each in there.files.list()]
        content = (await there.files.content(made.id)).read()
        container = await there.containers.create(name="c", file_ids=[made.id])
        inside = [each.path async for each in there.containers.files.list(container.id)]
        await there.files.delete(made.id)
        with pytest.raises(NotFoundError):
            await there.files.retrieve(made.id)
    async with served(python, data=tmp_path / "a", shared_files=boxed(access, "read")) as (here, _):
        with pytest.raises(NotFoundError):
            await here.files.content(made.id)
        assert [each async for each in here.files.list()] == []

    assert (listed, content) == ([made.id], b"hello")
    assert [path.endswith("a.txt") for path in inside] == [True]


async def test_equal_bytes_lie_once_and_go_with_the_last_file(access: dict[str, Any]) -> None:
    """Bytes lie under their digest. They stay while a record names them, and for a day after."""
    now = 0.0
    files = boxed(access, "equal", clock=lambda: now)
    async with served(python, shared_files=files) as (client, _):
        first = await client.files.create(file=("a.txt", b"same"), purpose="user_data")
        second = await client.files.create(file=("b.txt", b"same"), purpose="user_data")
        assert len(keys(access, "equal/sha256/")) == 1

        await client.files.delete(first.id)
        now = 1e12
        await files.sweep()
        assert (await client.files.content(second.id)).read() == b"same"

        await client.files.delete(second.id)
        now = 0.0
        await files.sweep()
        assert len(keys(access, "equal/sha256/")) == 1
        now = 1e12
        await files.sweep()
        assert keys(access, "equal/") == []


async def test_changed_bytes_are_not_returned(access: dict[str, Any]) -> None:
    """Bytes that are not those of their digest are refused."""
    async with served(python, shared_files=boxed(access, "changed")) as (client, _):
        made = await client.files.create(file=("a.txt", b"true"), purpose="user_data")
        boto3: Any = import_module("boto3")
        [key] = keys(access, "changed/sha256/")
        boto3.client("s3", **access).put_object(Bucket="crib", Key=key, Body=b"false")
        with pytest.raises(APIStatusError, match="missing or were changed"):
            await client.with_options(max_retries=0).files.content(made.id)


async def test_a_store_that_fails_is_an_error_without_its_secret(access: dict[str, Any]) -> None:
    """The answer names what failed and no credential; nothing is taken for missing."""
    wrong = {**access, "aws_secret_access_key": "guessed-secret"}
    async with served(python, shared_files=boxed(wrong, "wrong")) as (client, _):
        once = client.with_options(max_retries=0)
        with pytest.raises(APIStatusError) as caught:
            await once.files.create(file=("a.txt", b"x"), purpose="user_data")
        assert caught.value.status_code == 503
        assert "SignatureDoesNotMatch" in caught.value.message
        assert "guessed-secret" not in caught.value.message


@pytest.mark.parametrize("url", ["http://crib", "s3://", "crib"])
def test_a_url_that_is_no_bucket_is_refused(url: str) -> None:
    """The error says how to write one."""
    with pytest.raises(UsageError, match="s3://BUCKET"):
        S3Files(url)
