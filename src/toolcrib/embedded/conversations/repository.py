"""Stored conversations and their items."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid, missing
from toolcrib.embedded.responses.conversation import (
    ResponseConversation,
    StoredItem,
    resolved_items,
)
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.database import Database
    from toolcrib.embedded.responses.repository import ResponseRepository
    from toolcrib.embedded.responses.request import Item

MAX_NEW_ITEMS: Final = 20
"""Items that one request may add, as in OpenAI's API."""

CONVERSATION_SCHEMA: Final = """
create table if not exists conversations (
    id text primary key,
    created_at integer not null,
    metadata text not null,
    owner text not null
);
create index if not exists conversations_by_owner on conversations (owner);
create table if not exists conversation_items (
    place integer primary key,
    conversation_id text not null references conversations (id) on delete cascade,
    id text not null,
    body text not null,
    answer text,
    unique (conversation_id, id)
);
"""


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A stored conversation."""

    id: str
    created_at: int
    metadata: Mapping[str, str]
    owner: str

    @property
    def resource(self) -> dict[str, Any]:
        """The conversation as the API returns it."""
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": dict(self.metadata),
        }


class ConversationRepository:
    """Reads and writes conversations. One that the principal of a request may not see counts as
    missing, and so do its items.
    """

    def __init__(self, database: Database, responses: ResponseRepository, clock: Clock) -> None:
        database.extend(CONVERSATION_SCHEMA)
        self._database = database
        self._responses = responses
        self._clock = clock
        self._locked: set[str] = set()

    async def create(
        self, items: Sequence[Item], metadata: Mapping[str, str], access: ResourceAccess
    ) -> StoredConversation:
        """Create a conversation of the principal with its first items. Raises `ApiFault`."""
        added = await self._readable((), items, access)
        conversation = StoredConversation(
            new_id("conv"), int(self._clock()), metadata, access.owner
        )

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "insert into conversations values (?, ?, ?, ?)",
                (
                    conversation.id,
                    conversation.created_at,
                    json.dumps(dict(metadata)),
                    conversation.owner,
                ),
            )
            _insert(connection, conversation.id, added)

        await self._database.ask(write)
        return conversation

    async def get(self, conversation_id: str, access: ResourceAccess) -> StoredConversation:
        """A conversation. Raises `ApiFault`."""
        return await self._database.ask(
            lambda connection: _conversation(connection, conversation_id, access)
        )

    async def describe(
        self, conversation_id: str, metadata: Mapping[str, str], access: ResourceAccess
    ) -> StoredConversation:
        """Replace the metadata of a conversation, which is returned. Raises `ApiFault`."""

        def write(connection: sqlite3.Connection) -> StoredConversation:
            conversation = _conversation(connection, conversation_id, access)
            connection.execute(
                "update conversations set metadata = ? where id = ?",
                (json.dumps(dict(metadata)), conversation_id),
            )
            return replace(conversation, metadata=metadata)

        return await self._database.ask(write)

    async def delete(self, conversation_id: str, access: ResourceAccess) -> None:
        """Delete a conversation with its items. Raises `ApiFault`."""

        def write(connection: sqlite3.Connection) -> None:
            _conversation(connection, conversation_id, access)
            connection.execute("delete from conversations where id = ?", (conversation_id,))

        await self._database.ask(write)

    async def add_items(
        self, conversation_id: str, items: Sequence[Item], access: ResourceAccess
    ) -> list[Item]:
        """Append items; returns them as stored. Raises `ApiFault`."""
        lock = await self.lock(conversation_id, access)
        try:
            before = await self.stored_items(conversation_id, access)
            added = await self._readable(before, items, access)
            return [item.body for item in await lock.append(added)]
        finally:
            lock.release()

    async def stored_items(self, conversation_id: str, access: ResourceAccess) -> list[StoredItem]:
        """The items, the oldest first, with the answers of their tools. Raises `ApiFault`."""

        def read(connection: sqlite3.Connection) -> list[StoredItem]:
            _conversation(connection, conversation_id, access)
            rows = connection.execute(
                "select body, answer from conversation_items where conversation_id = ? "
                "order by place",
                (conversation_id,),
            )
            return [_stored(row) for row in rows]

        return await self._database.ask(read)

    async def item(self, conversation_id: str, item_id: str, access: ResourceAccess) -> Item:
        """One item. Raises `ApiFault`."""
        return await self._database.ask(
            lambda connection: _item(connection, conversation_id, item_id, access).body
        )

    async def delete_item(
        self, conversation_id: str, item_id: str, access: ResourceAccess
    ) -> StoredConversation:
        """Delete an item; returns its conversation. Raises `ApiFault`."""

        def write(connection: sqlite3.Connection) -> StoredConversation:
            _item(connection, conversation_id, item_id, access)
            connection.execute(
                "delete from conversation_items where conversation_id = ? and id = ?",
                (conversation_id, item_id),
            )
            return _conversation(connection, conversation_id, access)

        return await self._database.ask(write)

    async def lock(self, conversation_id: str, access: ResourceAccess) -> ConversationLock:
        """Reserve a conversation for one writer. Raises `ApiFault` while another one has it."""
        await self.get(conversation_id, access)
        if conversation_id in self._locked:
            raise ApiFault(
                409,
                "Another request adds to this conversation; try again when it has ended.",
                code="conversation_locked",
                param="conversation",
            )
        self._locked.add(conversation_id)
        return ConversationLock(self._database, self._locked, conversation_id)

    async def _readable(
        self, before: Sequence[StoredItem], items: Sequence[Item], access: ResourceAccess
    ) -> list[StoredItem]:
        """Items that a response can continue after `before`. Raises `ApiFault`."""
        if len(items) > MAX_NEW_ITEMS:
            raise invalid(f"At most {MAX_NEW_ITEMS} items can be added at a time.", "items")
        added = await resolved_items(self._responses, items, access, "items")
        conversation = ResponseConversation(lambda item_id: None)
        content = _UnreadContent()
        await conversation.read((item.body for item in before), content, "conversation")
        await conversation.read((item.body for item in added), content, "items")
        return added


class _UnreadContent:
    """Leaves files and images unread: a response reads them when it continues the conversation."""

    async def resolve(self, item: Item, param: str) -> Item:
        """The item without its files and images."""
        parts: object = item.get("content")
        if not isinstance(parts, list):
            return item
        return {**item, "content": [_text_of(part) for part in cast(list[object], parts)]}


def _text_of(part: object) -> object:
    match part:
        case {"type": "input_file" | "input_image"}:
            return {"type": "input_text", "text": ""}
        case _:
            return part


class ConversationLock:
    """The right of one writer to append to a conversation until it is released."""

    def __init__(self, database: Database, locked: set[str], conversation_id: str) -> None:
        self._database = database
        self._locked = locked
        self._conversation_id = conversation_id

    async def append(self, items: Sequence[StoredItem]) -> list[StoredItem]:
        """Append items; returns them as stored. Raises `ApiFault` for a deleted conversation."""
        conversation_id = self._conversation_id

        def write(connection: sqlite3.Connection) -> list[StoredItem]:
            found = connection.execute(
                "select 1 from conversations where id = ?", (conversation_id,)
            ).fetchone()
            if found is None:
                raise missing("Conversation", conversation_id, "conversation")
            return _insert(connection, conversation_id, items)

        return await self._database.ask(write)

    def release(self) -> None:
        """Let others write."""
        self._locked.discard(self._conversation_id)


def _insert(
    connection: sqlite3.Connection, conversation_id: str, items: Sequence[StoredItem]
) -> list[StoredItem]:
    """Append items. An item that the conversation has already gets a new id: clients send the
    items of earlier answers again.
    """
    stored: list[StoredItem] = []
    for item in items:
        taken = connection.execute(
            "select 1 from conversation_items where conversation_id = ? and id = ?",
            (conversation_id, item.id),
        ).fetchone()
        if taken:
            prefix = item.id.partition("_")[0] or "item"
            item = StoredItem({**item.body, "id": new_id(prefix)}, item.answer)
        connection.execute(
            "insert into conversation_items (conversation_id, id, body, answer) "
            "values (?, ?, ?, ?)",
            (
                conversation_id,
                item.id,
                json.dumps(item.body),
                None if item.answer is None else json.dumps(item.answer),
            ),
        )
        stored.append(item)
    return stored


def _conversation(
    connection: sqlite3.Connection, conversation_id: str, access: ResourceAccess
) -> StoredConversation:
    row = connection.execute(
        "select * from conversations where id = ?", (conversation_id,)
    ).fetchone()
    fault = missing("Conversation", conversation_id, "conversation")
    if row is None:
        raise fault
    access.check(row["owner"], fault)
    return StoredConversation(
        row["id"], row["created_at"], json.loads(row["metadata"]), row["owner"]
    )


def _item(
    connection: sqlite3.Connection, conversation_id: str, item_id: str, access: ResourceAccess
) -> StoredItem:
    _conversation(connection, conversation_id, access)
    row = connection.execute(
        "select body, answer from conversation_items where conversation_id = ? and id = ?",
        (conversation_id, item_id),
    ).fetchone()
    if row is None:
        raise missing("Item", item_id, "item_id")
    return _stored(row)


def _stored(row: sqlite3.Row) -> StoredItem:
    answer = row["answer"]
    return StoredItem(json.loads(row["body"]), None if answer is None else json.loads(answer))
