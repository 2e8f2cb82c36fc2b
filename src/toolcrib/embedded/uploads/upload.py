"""An upload: a file that is announced, arrives in parts and becomes an uploaded file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import ConfigDict, StringConstraints, TypeAdapter
from pydantic.dataclasses import dataclass as checked

from toolcrib.embedded.file_repository import MAX_BYTES

MAX_PART_BYTES: Final = 64 * 1024 * 1024
MAX_PARTS: Final = 10_000
LIFETIME_SECONDS: Final = 3600
SHORTEST_SECONDS: Final = 3600
LONGEST_SECONDS: Final = 2_592_000

UploadStatus: TypeAlias = Literal["pending", "completed", "cancelled", "expired"]

UPLOAD_SCHEMA: Final = """
create table if not exists uploads (
    id text primary key,
    filename text not null,
    purpose text not null,
    bytes integer not null,
    created_at integer not null,
    expires_at integer not null,
    file_seconds integer,
    status text not null,
    file_id text,
    owner text not null
);
create index if not exists uploads_by_status on uploads (status);
create table if not exists upload_parts (
    id text primary key,
    upload_id text not null references uploads (id) on delete cascade,
    bytes integer not null,
    created_at integer not null
);
create index if not exists upload_parts_by_upload on upload_parts (upload_id);
"""

_CONFIG: Final = ConfigDict(extra="ignore", strict=True)


@checked(frozen=True, config=_CONFIG)
class FileExpiry:
    """When the finished file expires."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Ge(SHORTEST_SECONDS), Le(LONGEST_SECONDS)]


@checked(frozen=True, config=_CONFIG)
class UploadRequest:
    """The announcement of a file."""

    bytes: Annotated[int, Ge(1), Le(MAX_BYTES)]
    filename: Annotated[str, MinLen(1), MaxLen(1024)]
    mime_type: Annotated[str, MinLen(1), MaxLen(256)]
    purpose: Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
    expires_after: FileExpiry | None = None


@checked(frozen=True, config=_CONFIG)
class CompletionRequest:
    """The parts of the file in their order, and the MD5 of the whole as hexadecimal digits."""

    part_ids: Annotated[list[str], MinLen(1), MaxLen(MAX_PARTS)]
    md5: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{32}$")] | None = None


@cache
def upload_adapter() -> TypeAdapter[UploadRequest]:
    """Reads announcements."""
    return TypeAdapter(UploadRequest)


@cache
def completion_adapter() -> TypeAdapter[CompletionRequest]:
    """Reads the requests that complete an upload."""
    return TypeAdapter(CompletionRequest)


@dataclass(frozen=True, slots=True)
class Upload:
    """The record of an upload."""

    id: str
    filename: str
    purpose: str
    bytes: int
    created_at: int
    expires_at: int
    file_seconds: int | None
    status: UploadStatus
    file_id: str | None
    owner: str

    def resource(self, file: dict[str, Any] | None = None) -> dict[str, Any]:
        """The upload as the API returns it, with the file that it became."""
        return {
            "id": self.id,
            "object": "upload",
            "bytes": self.bytes,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": self.status,
            "file": file,
        }


@dataclass(frozen=True, slots=True)
class UploadPart:
    """The record of a part."""

    id: str
    upload_id: str
    bytes: int
    created_at: int

    @property
    def resource(self) -> dict[str, Any]:
        """The part as the API returns it."""
        return {
            "id": self.id,
            "object": "upload.part",
            "created_at": self.created_at,
            "upload_id": self.upload_id,
        }
