"""Uploads: their records in the database, and the bytes of their parts in a folder."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from toolcrib.embedded.database import SweepInterval
from toolcrib.embedded.faults import invalid, missing
from toolcrib.embedded.file_repository import StoredFile, write_whole
from toolcrib.embedded.uploads.upload import (
    LIFETIME_SECONDS,
    MAX_PART_BYTES,
    MAX_PARTS,
    UPLOAD_SCHEMA,
    CompletionRequest,
    Upload,
    UploadPart,
    UploadRequest,
    UploadStatus,
)
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from pathlib import Path

    from toolcrib.clock import Clock
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.database import Database
    from toolcrib.embedded.file_repository import FileRepository

_SWEEP_SECONDS: Final = 60.0


class UploadRepository:
    """Reads and writes uploads. One that the principal of a request may not see counts as missing.

    Parts lie with the provider that got them, also when files lie in a store that replicas share.
    """

    def __init__(
        self, database: Database, folder: Path, files: FileRepository, clock: Clock
    ) -> None:
        database.extend(UPLOAD_SCHEMA)
        self._database = database
        self._folder = folder
        self._files = files
        self._clock = clock
        self._sweeps = SweepInterval(clock, _SWEEP_SECONDS)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    async def create(self, request: UploadRequest, access: ResourceAccess) -> Upload:
        """Begin an upload of the principal."""
        if self._sweeps.has_elapsed():
            await self.sweep()
        now = int(self._clock())
        upload = Upload(
            self._database.new_id("upload"),
            request.filename,
            request.purpose,
            request.bytes,
            now,
            now + LIFETIME_SECONDS,
            request.expires_after.seconds if request.expires_after else None,
            "pending",
            None,
            access.owner,
        )
        names = ", ".join(asdict(upload))
        values = ", ".join(f":{name}" for name in asdict(upload))
        await self._database.ask(
            lambda connection: connection.execute(
                f"insert into uploads ({names}) values ({values})",
                asdict(upload),
            )
        )
        return upload

    async def check_pending(self, upload_id: str, access: ResourceAccess) -> None:
        """Raises `ApiFault` for an upload that takes no parts."""
        _check_pending(await self._get(upload_id, access), self._clock())

    async def add_part(self, upload_id: str, data: bytes, access: ResourceAccess) -> UploadPart:
        """Add a part. Raises `ApiFault`."""
        if len(data) > MAX_PART_BYTES:
            raise ApiFault(413, f"A part has at most {MAX_PART_BYTES} bytes.", param="data")
        async with self._turn(upload_id):
            upload = await self._get(upload_id, access)
            _check_pending(upload, self._clock())
            parts = await self._parts(upload_id)
            if sum(part.bytes for part in parts) + len(data) > upload.bytes:
                message = f"The parts have more than the {upload.bytes} bytes of this upload."
                raise invalid(message, "data")
            if len(parts) >= MAX_PARTS:
                raise invalid(f"An upload has at most {MAX_PARTS} parts.", "data")
            part = UploadPart(
                self._database.new_id("part"), upload_id, len(data), int(self._clock())
            )
            await asyncio.to_thread(write_whole, self._folder / part.id, data)
            await self._database.ask(
                lambda connection: connection.execute(
                    "insert into upload_parts values (:id, :upload_id, :bytes, :created_at)",
                    asdict(part),
                )
            )
        return part

    async def complete(
        self, upload_id: str, request: CompletionRequest, access: ResourceAccess
    ) -> tuple[Upload, StoredFile]:
        """Make a file of the parts in their order. Raises `ApiFault`."""
        async with self._turn(upload_id):
            upload = await self._get(upload_id, access)
            _check_pending(upload, self._clock())
            parts = _chosen(await self._parts(upload_id), request.part_ids)
            size = sum(part.bytes for part in parts)
            if size != upload.bytes:
                message = f"The parts have {size} bytes; the upload was begun with {upload.bytes}."
                raise invalid(message, "part_ids")
            data = await asyncio.to_thread(self._joined, parts)
            md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
            if request.md5 is not None and request.md5.lower() != md5:
                raise invalid("The MD5 of the parts is another one: send them again.", "md5")
            # A file belongs to who began its upload, also when an admin completes it.
            owner = replace(access, owner=upload.owner)
            file = await self._files.add(
                upload.filename, data, upload.purpose, owner, seconds=upload.file_seconds
            )
            done = await self._end(upload, "completed", file.id)
        return done, file

    async def cancel(self, upload_id: str, access: ResourceAccess) -> Upload:
        """Cancel an upload; its parts are deleted. Raises `ApiFault`."""
        async with self._turn(upload_id):
            upload = await self._get(upload_id, access)
            _check_pending(upload, self._clock())
            return await self._end(upload, "cancelled")

    async def sweep(self) -> None:
        """Delete the parts of uploads that have expired."""
        now = int(self._clock())
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from uploads where status = 'pending' and expires_at <= ?", (now,)
            ).fetchall()
        )
        for row in rows:
            await self._end(Upload(**dict(row)), "expired")

    async def _end(
        self, upload: Upload, status: UploadStatus, file_id: str | None = None
    ) -> Upload:
        parts = await self._parts(upload.id)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("delete from upload_parts where upload_id = ?", (upload.id,))
            connection.execute(
                "update uploads set status = ?, file_id = ? where id = ?",
                (status, file_id, upload.id),
            )

        await self._database.ask(write)
        for part in parts:
            (self._folder / part.id).unlink(missing_ok=True)
        return replace(upload, status=status, file_id=file_id)

    def _turn(self, upload_id: str) -> asyncio.Lock:
        """A second request for an upload waits: parts are counted, and a file is made once."""
        return self._turns.setdefault(upload_id, asyncio.Lock())

    async def _get(self, upload_id: str, access: ResourceAccess) -> Upload:
        row = await self._database.ask(
            lambda connection: connection.execute(
                "select * from uploads where id = ?", (upload_id,)
            ).fetchone()
        )
        fault = missing("Upload", upload_id, "upload_id", here=self._database.place)
        if row is None:
            raise fault
        access.check(row["owner"], fault)
        return Upload(**dict(row))

    async def _parts(self, upload_id: str) -> list[UploadPart]:
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from upload_parts where upload_id = ?", (upload_id,)
            ).fetchall()
        )
        return [UploadPart(**dict(row)) for row in rows]

    def _joined(self, parts: Sequence[UploadPart]) -> bytes:
        return b"".join((self._folder / part.id).read_bytes() for part in parts)


def _check_pending(upload: Upload, now: float) -> None:
    expired = upload.status == "pending" and upload.expires_at <= now
    status = "expired" if expired else upload.status
    if status != "pending":
        raise invalid(f"The upload is {status}; begin another one.", "upload_id")


def _chosen(parts: Sequence[UploadPart], part_ids: Sequence[str]) -> list[UploadPart]:
    known = {part.id: part for part in parts}
    for at, part_id in enumerate(part_ids):
        if part_id not in known:
            message = f"The upload has no part '{part_id[:80]}', or it is named twice."
            raise invalid(message, f"part_ids[{at}]")
        del known[part_id]
    whole = {part.id: part for part in parts}
    return [whole[part_id] for part_id in part_ids]
