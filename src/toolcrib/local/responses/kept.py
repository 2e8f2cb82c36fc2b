"""Responses that are kept, with the items that went in and came out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.local.database import Database
from toolcrib.local.faults import missing
from toolcrib.local.ids import new_id
from toolcrib.local.responses.request import Item


@dataclass(frozen=True, slots=True)
class KeptItem:
    """An item of a kept response, and what its tool answered."""

    body: Item
    answer: Mapping[str, Any] | None


class Kept:
    """Reads and writes kept responses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self, response: Mapping[str, Any], request: Mapping[str, Any], items: Sequence[Item]
    ) -> None:
        """Keep a response that is about to be made, with its input."""
        named = [{**item, "id": item.get("id") or new_id(_prefix(item))} for item in items]

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "insert into responses values (?, ?, ?, ?, ?, ?, ?)",
                (
                    response["id"],
                    response["created_at"],
                    response["status"],
                    int(response["background"]),
                    json.dumps(request),
                    json.dumps(response),
                    response["previous_response_id"],
                ),
            )
            _write_items(connection, response["id"], named, {}, is_input=True)

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
        """Keep a response that is done. Its events are kept for those who come back for them."""

        def write(connection: sqlite3.Connection) -> None:
            _write_response(connection, response)
            _write_items(connection, response["id"], response["output"], answers, is_input=False)
            connection.executemany(
                "insert or replace into events values (?, ?, ?)",
                ((response["id"], each["sequence_number"], json.dumps(each)) for each in events),
            )

        await self._database.ask(write)

    async def body(self, response_id: str) -> dict[str, Any]:
        """A response. Raises `ApiFault`."""
        return await self._database.ask(lambda connection: _body(connection, response_id))

    async def events(self, response_id: str, after: int) -> list[dict[str, Any]]:
        """The kept events of a response after a number."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select body from events where response_id = ? and seq > ? order by seq",
                (response_id, after),
            ).fetchall()
        )
        return [json.loads(row["body"]) for row in rows]

    async def input_items(self, response_id: str) -> list[Item]:
        """What went into a response, with the conversation before it. Raises `ApiFault`."""
        return [
            kept.body for kept in await self._database.ask(lambda c: _chain(c, response_id, False))
        ]

    async def chain(self, response_id: str) -> list[KeptItem]:
        """A whole conversation up to a response, and with its output. Raises `ApiFault`."""
        return await self._database.ask(lambda connection: _chain(connection, response_id, True))

    async def item(self, item_id: str) -> KeptItem | None:
        """One item by its id."""
        row = await self._database.ask(
            lambda connection: connection.execute(
                "select body, answer from items where id = ? limit 1", (item_id,)
            ).fetchone()
        )
        return None if row is None else _kept(row)

    async def delete(self, response_id: str) -> None:
        """Keep it no longer. Raises `ApiFault`."""

        def write(connection: sqlite3.Connection) -> None:
            _body(connection, response_id)
            connection.execute("delete from responses where id = ?", (response_id,))

        await self._database.ask(write)

    async def unfinished(self) -> list[dict[str, Any]]:
        """Responses that were being made when the provider last stopped."""
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
    connection: sqlite3.Connection,
    response_id: str,
    items: Sequence[Item],
    answers: Mapping[str, Mapping[str, Any]],
    *,
    is_input: bool,
) -> None:
    rows = [
        (response_id, place, int(is_input), item["id"], json.dumps(item), _answer(item, answers))
        for place, item in enumerate(items)
    ]
    connection.executemany("insert or replace into items values (?, ?, ?, ?, ?, ?)", rows)


def _answer(item: Item, answers: Mapping[str, Mapping[str, Any]]) -> str | None:
    answer = answers.get(item["id"])
    return None if answer is None else json.dumps(answer)


def _body(connection: sqlite3.Connection, response_id: str) -> dict[str, Any]:
    row = connection.execute("select body from responses where id = ?", (response_id,)).fetchone()
    if row is None:
        raise missing("Response", response_id, "response_id")
    return json.loads(row["body"])


def _chain(connection: sqlite3.Connection, response_id: str, with_last: bool) -> list[KeptItem]:
    """Input and output of every response from the first to this one, in order."""
    rows = connection.execute(
        """
        with recursive chain (id, previous_id, depth) as (
            select id, previous_id, 0 from responses where id = ?
            union all
            select r.id, r.previous_id, depth + 1
            from responses r join chain on r.id = chain.previous_id
        )
        select items.body, items.answer
        from chain join items on items.response_id = chain.id
        where ? or depth > 0 or is_input
        order by depth desc, is_input desc, place
        """,
        (response_id, with_last),
    ).fetchall()
    if not rows:
        _body(connection, response_id)
    return [_kept(row) for row in rows]


def _kept(row: sqlite3.Row) -> KeptItem:
    answer = row["answer"]
    return KeptItem(json.loads(row["body"]), None if answer is None else json.loads(answer))


def _prefix(item: Item) -> str:
    kind = str(item.get("type", "message"))
    return {"message": "msg", "function_call_output": "fco"}.get(kind, "item")
