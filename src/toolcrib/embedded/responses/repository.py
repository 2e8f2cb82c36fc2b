"""Stored responses, with their input and output items."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.embedded.database import Database
from toolcrib.embedded.faults import missing
from toolcrib.embedded.responses.conversation import RequestHistory, StoredItem, whole_item
from toolcrib.embedded.responses.request import Item
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess


class ResponseRepository:
    """Reads and writes stored responses.

    A response that the principal of a request may not see counts as missing, and so do its items.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self,
        response: Mapping[str, Any],
        request: Mapping[str, Any],
        history: RequestHistory,
        owner: str,
    ) -> None:
        """Store a new response of this owner with its input, before its loop starts."""
        previous_id = response["previous_response_id"] if history.is_stored else None

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "insert into responses values (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    response["id"],
                    response["created_at"],
                    response["status"],
                    int(response["background"]),
                    json.dumps(request),
                    json.dumps(response),
                    previous_id,
                    owner,
                ),
            )
            _write_items(connection, response["id"], history.unstored, is_input=True)

        await self._database.ask(write)

    async def progress(self, response: Mapping[str, Any]) -> None:
        """Keep how far a response is."""

        def write(connection: sqlite3.Connection) -> None:
            _write_response(connection, response)

        await self._database.ask(write)

    async def finish(
        self,
        response: Mapping[str, Any],
        answers: Mapping[str, Mapping[str, Any]],
        events: Iterable[Mapping[str, Any]],
    ) -> None:
        """Store a finished response, and its events for clients that resume the stream."""

        def write(connection: sqlite3.Connection) -> None:
            _write_response(connection, response)
            output = [StoredItem(item, answers.get(item["id"])) for item in response["output"]]
            _write_items(connection, response["id"], output, is_input=False)
            connection.executemany(
                "insert or replace into events values (?, ?, ?)",
                ((response["id"], event["sequence_number"], json.dumps(event)) for event in events),
            )

        await self._database.ask(write)

    async def body(self, response_id: str, access: ResourceAccess) -> dict[str, Any]:
        """A response. Raises `ApiFault`."""
        return await self._database.ask(lambda connection: _body(connection, response_id, access))

    async def events(self, response_id: str, after: int) -> list[dict[str, Any]]:
        """The stored events of a response, which `body` has found, after a sequence number."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select body from events where response_id = ? and seq > ? order by seq",
                (response_id, after),
            ).fetchall()
        )
        return [json.loads(row["body"]) for row in rows]

    async def input_items(self, response_id: str, access: ResourceAccess) -> list[Item]:
        """The input of a response, with the conversation before it. Raises `ApiFault`."""

        def read(connection: sqlite3.Connection) -> list[Item]:
            _body(connection, response_id, access)
            items = _chain(connection, response_id, access, with_last=False)
            # A list shows fields of an item that its creation does not.
            return [whole_item(item.body) for item in items]

        return await self._database.ask(read)

    async def chain(self, response_id: str, access: ResourceAccess) -> list[StoredItem]:
        """The items of a conversation up to a response and its output. Raises `ApiFault`."""
        return await self._database.ask(
            lambda connection: _chain(connection, response_id, access, with_last=True)
        )

    async def item(self, item_id: str, access: ResourceAccess) -> StoredItem | None:
        """One item by its id, of a response that the principal owns; an admin finds any."""
        row = await self._database.ask(
            lambda connection: connection.execute(
                "select items.body, answer from items join responses on responses.id = response_id "
                "where items.id = ? and (? or owner = ?) "
                "order by owner = ? desc, answer is null limit 1",
                (item_id, access.is_admin, access.owner, access.owner),
            ).fetchone()
        )
        return None if row is None else _stored_item(row)

    async def delete(self, response_id: str, access: ResourceAccess) -> None:
        """Delete a response. Raises `ApiFault`."""

        def write(connection: sqlite3.Connection) -> None:
            _body(connection, response_id, access)
            connection.execute("delete from responses where id = ?", (response_id,))

        await self._database.ask(write)

    async def unfinished(self) -> list[dict[str, Any]]:
        """The responses that were active when the provider last stopped."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select body from responses where status in ('queued', 'in_progress')"
            ).fetchall()
        )
        return [json.loads(row["body"]) for row in rows]


def _write_response(connection: sqlite3.Connection, response: Mapping[str, Any]) -> None:
    connection.execute(
        "update responses set status = ?, body = ? where id = ?",
        (response["status"], json.dumps(response), response["id"]),
    )


def _write_items(
    connection: sqlite3.Connection, response_id: str, items: Iterable[StoredItem], *, is_input: bool
) -> None:
    rows = [
        (response_id, place, int(is_input), item.id, json.dumps(item.body), _text(item.answer))
        for place, item in enumerate(items)
    ]
    connection.executemany("insert or replace into items values (?, ?, ?, ?, ?, ?)", rows)


def _text(answer: Mapping[str, Any] | None) -> str | None:
    return None if answer is None else json.dumps(answer)


def missing_response(response_id: str) -> ApiFault:
    """No response that the principal may see has this id."""
    return missing("Response", response_id, "response_id")


def _body(
    connection: sqlite3.Connection, response_id: str, access: ResourceAccess
) -> dict[str, Any]:
    row = connection.execute(
        "select body, owner from responses where id = ?", (response_id,)
    ).fetchone()
    if row is None:
        raise missing_response(response_id)
    access.check(row["owner"], missing_response(response_id))
    return json.loads(row["body"])


def _chain(
    connection: sqlite3.Connection, response_id: str, access: ResourceAccess, *, with_last: bool
) -> list[StoredItem]:
    """Input and output of every response from the first to this one, in order."""
    ids = _ids_of_chain(connection, response_id, access)
    items: list[StoredItem] = []
    for chained_id in reversed(ids):
        rows = connection.execute(
            "select body, answer from items where response_id = ? and (? or is_input)"
            " order by is_input desc, place",
            (chained_id, with_last or chained_id != response_id),
        )
        items += [_stored_item(row) for row in rows]
    return items


def _ids_of_chain(
    connection: sqlite3.Connection, response_id: str, access: ResourceAccess
) -> list[str]:
    """The ids from this response back to the first. A deleted one ends the conversation."""
    ids: list[str] = []
    at: str | None = response_id
    while at is not None:
        row = connection.execute(
            "select previous_id, owner from responses where id = ?", (at,)
        ).fetchone()
        fault = ApiFault(
            400,
            f"Previous response with id '{at[:80]}' not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
        if row is None:
            raise fault
        access.check(row["owner"], fault)
        ids.append(at)
        at = row["previous_id"]
    return ids


def _stored_item(row: sqlite3.Row) -> StoredItem:
    answer = row["answer"]
    return StoredItem(json.loads(row["body"]), None if answer is None else json.loads(answer))
