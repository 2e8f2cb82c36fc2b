"""Uploaded files in a bucket of an S3-compatible store: every replica reads them, and they survive
each of them.

The bytes lie under their digest, once for equal files; a record under the file's id says whose they
are. A record that is deleted takes the file away at once, the bytes go with a later sweep.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from toolcrib.embedded.file_repository import StoredFile
from toolcrib.errors import ApiFault, UsageError

if TYPE_CHECKING:
    from toolcrib.clock import Clock

T = TypeVar("T")

_UNUSED_SECONDS: Final = 86_400.0
"""How long bytes stay after the last upload of them, though no record names them: an upload writes
them before its record.
"""


class S3Files:
    """Files in a bucket. `url` is `s3://BUCKET/PREFIX`; boto3 finds credentials, region and, in
    `AWS_ENDPOINT_URL_S3`, the server, unless `options` of its client say otherwise.
    """

    def __init__(self, url: str, *, clock: Clock = time.time, **options: Any) -> None:
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc:
            raise UsageError(f"{url[:80]!r} is no bucket; write s3://BUCKET or s3://BUCKET/PREFIX")
        try:
            # It has no types of its own.
            boto3: Any = import_module("boto3")
        except ImportError:
            raise UsageError("files in S3 need boto3; run: pip install 'toolcrib[s3]'") from None
        errors: Any = import_module("botocore.exceptions")
        self._answered, self._failed = errors.ClientError, errors.BotoCoreError
        self._bucket = parts.netloc
        self._prefix = f"{parts.path.strip('/')}/".lstrip("/")
        self._clock = clock
        self._client: Any = boto3.client("s3", **options)

    async def put(self, stored: StoredFile, data: bytes) -> None:
        """Save a file: the bytes, then the record that makes them visible."""
        await self._run(lambda: self._put(stored, data))

    async def record(self, file_id: str) -> StoredFile | None:
        """The record of a file; None when there is none."""
        body = await self._run(lambda: self._get(self._record_key(file_id)))
        return None if body is None else StoredFile(**json.loads(body))

    async def read(self, stored: StoredFile) -> bytes:
        """The bytes of a file. Raises `ApiFault` when they are not those that were uploaded."""
        data = await self._run(lambda: self._get(self._bytes_key(stored.digest)))
        if data is None or sha256(data).hexdigest() != stored.digest:
            raise _fault(f"the bytes of '{stored.id}' are missing or were changed there")
        return data

    async def list(self, owner: str | None) -> list[StoredFile]:
        """The files of an owner, or without one all of them; the oldest first."""
        place = "owners/" if owner is None else f"owners/{quote(owner, safe='')}/"
        keys = await self._run(lambda: list(self._keys(place)))
        records = [await self.record(key.rpartition("/")[2]) for key, _ in keys]
        return sorted(filter(None, records), key=lambda stored: (stored.created_at, stored.id))

    async def remove(self, stored: StoredFile) -> None:
        """Delete the record of a file."""
        await self._run(
            lambda: self._delete(
                self._record_key(stored.id), self._owner_key(stored), self._use_key(stored)
            )
        )

    async def sweep(self) -> None:
        """Delete the bytes that no record has named for a day."""
        await self._run(self._sweep)

    def _put(self, stored: StoredFile, data: bytes) -> None:
        # First the use: a sweep meanwhile must not take the bytes away.
        self._write(self._use_key(stored), b"")
        self._write(self._bytes_key(stored.digest), data)
        self._write(self._owner_key(stored), b"")
        self._write(self._record_key(stored.id), json.dumps(asdict(stored)).encode())

    def _sweep(self) -> None:
        before = self._clock() - _UNUSED_SECONDS
        for key, written_at in self._keys("sha256/"):
            digest = key.rpartition("/")[2]
            if written_at < before and not any(self._keys(f"uses/{digest}/")):
                self._delete(key)

    def _write(self, key: str, body: bytes) -> None:
        self._client.put_object(Bucket=self._bucket, Key=key, Body=body)

    def _get(self, key: str) -> bytes | None:
        try:
            return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except self._client.exceptions.NoSuchKey:
            return None

    def _delete(self, *keys: str) -> None:
        for key in keys:
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def _keys(self, place: str) -> Iterator[tuple[str, float]]:
        """The keys below a place, with the times when they were written."""
        pages = self._client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self._bucket, Prefix=f"{self._prefix}{place}"):
            for entry in page.get("Contents", ()):
                yield entry["Key"], entry["LastModified"].timestamp()

    def _record_key(self, file_id: str) -> str:
        return f"{self._prefix}files/{quote(file_id, safe='')}"

    def _bytes_key(self, digest: str) -> str:
        return f"{self._prefix}sha256/{digest}"

    def _owner_key(self, stored: StoredFile) -> str:
        return f"{self._prefix}owners/{quote(stored.owner, safe='')}/{stored.id}"

    def _use_key(self, stored: StoredFile) -> str:
        return f"{self._prefix}uses/{stored.digest}/{stored.id}"

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except self._answered as error:
            raise _fault(f"it answered {_code(error)}") from error
        except self._failed as error:
            # Its text may name the address with its credentials.
            raise _fault(type(error).__name__) from error


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code"))


def _fault(reason: str) -> ApiFault:
    return ApiFault(503, f"The store of files failed: {reason}.", kind="server_error")
