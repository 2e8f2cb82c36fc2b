"""Stored chat completions, with the messages of their requests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from toolcrib.embedded.faults import missing

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.database import Database

CHAT_SCHEMA: Final = """
create table if not exists chat_completions (
    id text primary key,
    model text not null,
    body text not null,
    messages text not null,
    owner text not null
);
create index if not exists chat_completions_by_owner on chat_completions (owner);
"""


class CompletionRepository:
    """Reads and writes stored completions. One that the principal of a request may not see counts
    as missing.
    """

    def __init__(self, database: Database) -> None:
        database.extend(CHAT_SCHEMA)
        self._database = database

    async def add(
        self,
        completion: Mapping[str, Any],
        messages: Sequence[Mapping[str, Any]],
        access: ResourceAccess,
    ) -> None:
        """Store a completion of the principal with the messages of its request."""
        row = (
            completion["id"],
            completion["model"],
            json.dumps(completion),
            json.dumps(messages),
            access.owner,
        )
        await self._database.ask(
            lambda connection: connection.execute(
                "insert into chat_completions values (?, ?, ?, ?, ?)", row
            )
        )

    async def get(self, completion_id: str, access: ResourceAccess) -> dict[str, Any]:
        """A completion. Raises `ApiFault`."""
        row = await self._database.ask(lambda connection: _row(connection, completion_id, access))
        return json.loads(row["body"])

    async def messages(self, completion_id: str, access: ResourceAccess) -> list[dict[str, Any]]:
        """The messages of a completion's request, each with an id. Raises `ApiFault`."""
        row = await self._database.ask(lambda connection: _row(connection, completion_id, access))
        return [
            {**message, "id": f"{completion_id}-{at}"}
            for at, message in enumerate(json.loads(row["messages"]))
        ]

    async def list(self, owner: str | None) -> list[dict[str, Any]]:
        """The completions of an owner, or without one all of them; the oldest first."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select body from chat_completions where ? is null or owner = ? order by rowid",
                (owner, owner),
            ).fetchall()
        )
        return [json.loads(row["body"]) for row in rows]

    async def describe(
        self, completion_id: str, metadata: Mapping[str, str], access: ResourceAccess
    ) -> dict[str, Any]:
        """Replace the metadata of a completion, which is returned. Raises `ApiFault`."""

        def write(connection: sqlite3.Connection) -> dict[str, Any]:
            body = json.loads(_row(connection, completion_id, access)["body"])
            described = {**body, "metadata": dict(metadata)}
            connection.execute(
                "update chat_completions set body = ? where id = ?",
                (json.dumps(described), completion_id),
            )
            return described

        return await self._database.ask(write)

    async def delete(self, completion_id: str, access: ResourceAccess) -> None:
        """Delete a completion. Raises `ApiFault`."""

        def write(connection: sqlite3.Connection) -> None:
            _row(connection, completion_id, access)
            connection.execute("delete from chat_completions where id = ?", (completion_id,))

        await self._database.ask(write)


def _row(connection: sqlite3.Connection, completion_id: str, access: ResourceAccess) -> sqlite3.Row:
    row = connection.execute(
        "select * from chat_completions where id = ?", (completion_id,)
    ).fetchone()
    fault = missing("Chat completion", completion_id, "completion_id")
    if row is None:
        raise fault
    access.check(row["owner"], fault)
    return row
