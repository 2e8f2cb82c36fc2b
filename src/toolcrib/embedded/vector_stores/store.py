"""The records of vector stores and their files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal, cast

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.search.documents import Chunking

SCHEMA: Final = """
create table if not exists vector_stores (
    id text primary key,
    name text not null,
    created_at integer not null,
    last_active_at integer not null,
    expires_days integer,
    metadata text not null,
    owner text not null
);
create table if not exists vector_store_files (
    store_id text not null references vector_stores (id) on delete cascade,
    file_id text not null,
    filename text not null,
    created_at integer not null,
    status text not null,
    bytes integer not null,
    error text,
    attributes text not null,
    most_tokens integer not null,
    overlap_tokens integer not null,
    batch_id text,
    primary key (store_id, file_id)
);
"""

FileStatus = Literal["in_progress", "completed", "failed", "cancelled"]
_MAX_ATTRIBUTES: Final = 16
FILE_STATUSES: Final = ("in_progress", "completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class VectorStore:
    """A collection of files."""

    id: str
    name: str
    created_at: int
    last_active_at: int
    expires_days: int | None
    metadata: Mapping[str, str]
    owner: str

    @property
    def expires_at(self) -> int | None:
        """When the store expires, unless it is used before."""
        days = self.expires_days
        return None if days is None else self.last_active_at + days * 86_400

    def is_expired(self, now: float) -> bool:
        """Whether the store was idle for too long."""
        return self.expires_at is not None and self.expires_at <= now

    def resource(self, files: list[VectorStoreFile], now: float) -> dict[str, Any]:
        """The store as the API returns it."""
        days = self.expires_days
        expires_after = None if days is None else {"anchor": "last_active_at", "days": days}
        is_busy = any(file.status == "in_progress" for file in files)
        status = "in_progress" if is_busy else "completed"
        return {
            "id": self.id,
            "object": "vector_store",
            "created_at": self.created_at,
            "name": self.name,
            "usage_bytes": sum(file.bytes for file in files if file.status == "completed"),
            "file_counts": counts_of(files),
            "status": "expired" if self.is_expired(now) else status,
            "expires_after": expires_after,
            "expires_at": self.expires_at,
            "last_active_at": self.last_active_at,
            "metadata": dict(self.metadata),
        }

    @classmethod
    def of(cls, row: sqlite3.Row) -> VectorStore:
        """Read a row of the database."""
        facts = dict(row)
        return cls(**{**facts, "metadata": json.loads(facts["metadata"])})


@dataclass(frozen=True, slots=True)
class VectorStoreFile:
    """A file of a vector store, and the state of its indexing."""

    store_id: str
    file_id: str
    filename: str
    created_at: int
    status: FileStatus
    bytes: int
    error: str | None
    attributes: Mapping[str, str | float | bool]
    chunking: Chunking
    batch_id: str | None = None

    @property
    def resource(self) -> dict[str, Any]:
        """The file as the API returns it."""
        error = {"code": "invalid_file", "message": self.error}
        return {
            "id": self.file_id,
            "object": "vector_store.file",
            "usage_bytes": self.bytes,
            "created_at": self.created_at,
            "vector_store_id": self.store_id,
            "status": self.status,
            "last_error": None if self.error is None else error,
            "attributes": dict(self.attributes),
            "chunking_strategy": {
                "type": "static",
                "static": {
                    "max_chunk_size_tokens": self.chunking.most_tokens,
                    "chunk_overlap_tokens": self.chunking.overlap_tokens,
                },
            },
        }

    @classmethod
    def of(cls, row: sqlite3.Row) -> VectorStoreFile:
        """Read a row of the database."""
        facts = dict(row)
        chunking = Chunking(facts.pop("most_tokens"), facts.pop("overlap_tokens"))
        attributes = json.loads(facts.pop("attributes"))
        return cls(**facts, attributes=attributes, chunking=chunking)


def counts_of(files: list[VectorStoreFile]) -> dict[str, int]:
    """Count the files by status."""
    counts = {state: sum(file.status == state for file in files) for state in FILE_STATUSES}
    return {**counts, "total": len(files)}


def read_chunking(config: object, param: str = "chunking_strategy") -> Chunking:
    """Read a chunking strategy. Raises `ApiFault`."""
    facts = cast(dict[str, Any], config) if isinstance(config, dict) else {}
    if config is None or facts.get("type") == "auto":
        return Chunking()
    static = facts.get("static")
    if facts.get("type") != "static" or not isinstance(static, dict):
        raise invalid("The chunking strategy is 'auto' or 'static'.", param)
    sizes = cast(dict[str, Any], static)
    most, overlap = sizes.get("max_chunk_size_tokens"), sizes.get("chunk_overlap_tokens")
    if type(most) is not int or not 100 <= most <= 4096:
        raise invalid("'max_chunk_size_tokens' must be from 100 to 4096.", param)
    if type(overlap) is not int or not 0 <= overlap <= most // 2:
        raise invalid("'chunk_overlap_tokens' must be from 0 to half of the size.", param)
    return Chunking(most, overlap)


def read_attributes(config: object, param: str = "attributes") -> dict[str, str | float | bool]:
    """Read the attributes of a file. Raises `ApiFault`."""
    if config is None:
        return {}
    facts = cast(dict[str, Any], config) if isinstance(config, dict) else None
    if facts is None or len(facts) > _MAX_ATTRIBUTES:
        raise invalid(f"Attributes are an object of at most {_MAX_ATTRIBUTES} keys.", param)
    for key, value in facts.items():
        is_number = isinstance(value, int | float) and isfinite(value)
        if len(key) > 64 or not (is_number or isinstance(value, str)):
            raise invalid("An attribute is text, a number or a boolean.", f"{param}.{key[:64]}")
        if isinstance(value, str) and len(value) > 512:
            raise invalid("An attribute has at most 512 characters.", f"{param}.{key[:64]}")
    return facts
