"""`/v1/conversations` and their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.http.bodies import access_of, answered, page, read_object
from toolcrib.embedded.http.metadata import read_metadata
from toolcrib.embedded.responses.conversation import whole_item

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.provider import EmbeddedProvider


class ConversationRoutes:
    """The routes of conversations."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes below `/v1`."""
        one = "/conversations/{conversation_id}"
        item = f"{one}/items/{{item_id}}"
        return [
            Route("/conversations", answered(self._create), methods=["POST"]),
            Route(one, answered(self._retrieve), methods=["GET"]),
            Route(one, answered(self._update), methods=["POST"]),
            Route(one, answered(self._delete), methods=["DELETE"]),
            Route(f"{one}/items", answered(self._add_items), methods=["POST"]),
            Route(f"{one}/items", answered(self._list_items), methods=["GET"]),
            Route(item, answered(self._item), methods=["GET"]),
            Route(item, answered(self._delete_item), methods=["DELETE"]),
        ]

    async def _create(self, request: Request) -> Response:
        body, access = await read_object(request), access_of(request)
        items = _items(body, is_required=False)
        conversations = self._provider.conversations
        conversation = await conversations.create(items, read_metadata(body), access)
        return JSONResponse(conversation.resource)

    async def _retrieve(self, request: Request) -> Response:
        conversation = await self._provider.conversations.get(*_named(request))
        return JSONResponse(conversation.resource)

    async def _update(self, request: Request) -> Response:
        conversation_id, access = _named(request)
        metadata = read_metadata(await read_object(request), is_required=True)
        conversations = self._provider.conversations
        conversation = await conversations.describe(conversation_id, metadata, access)
        return JSONResponse(conversation.resource)

    async def _delete(self, request: Request) -> Response:
        conversation_id, access = _named(request)
        await self._provider.conversations.delete(conversation_id, access)
        answer = {"id": conversation_id, "object": "conversation.deleted", "deleted": True}
        return JSONResponse(answer)

    async def _add_items(self, request: Request) -> Response:
        conversation_id, access = _named(request)
        items = _items(await read_object(request), is_required=True)
        added = await self._provider.conversations.add_items(conversation_id, items, access)
        return JSONResponse(_item_list(added))

    async def _list_items(self, request: Request) -> Response:
        stored = await self._provider.conversations.stored_items(*_named(request))
        return page(request, [whole_item(item.body) for item in stored])

    async def _item(self, request: Request) -> Response:
        conversation_id, access = _named(request)
        item_id = request.path_params["item_id"]
        return JSONResponse(
            await self._provider.conversations.item(conversation_id, item_id, access)
        )

    async def _delete_item(self, request: Request) -> Response:
        conversation_id, access = _named(request)
        item_id = request.path_params["item_id"]
        conversations = self._provider.conversations
        conversation = await conversations.delete_item(conversation_id, item_id, access)
        return JSONResponse(conversation.resource)


def _named(request: Request) -> tuple[str, ResourceAccess]:
    return request.path_params["conversation_id"], access_of(request)


def _items(body: Mapping[str, Any], *, is_required: bool) -> list[dict[str, Any]]:
    value: object = body.get("items")
    if value is None and not is_required:
        return []
    items = cast(list[object], value) if isinstance(value, list) else [None]
    if not all(isinstance(item, dict) for item in items):
        raise invalid("'items' must be a list of items.", "items")
    return cast(list[dict[str, Any]], items)


def _item_list(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": False,
    }
