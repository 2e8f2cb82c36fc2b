"""Resources, templates, prompts and completions for MCP clients: the lists, and who hears of
changes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, EmptyResult, PromptReference

from toolcrib.errors import CallEnded, Refused
from toolcrib.transports.mcp.feature_reads import RESOURCE_NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp.server.subscriptions import ServerEvent
    from mcp_types import (
        CompleteRequestParams,
        PaginatedRequestParams,
        SubscribeRequestParams,
        SubscriptionsListenRequestParams,
        SubscriptionsListenResult,
        UnsubscribeRequestParams,
    )

    from toolcrib.features.registry import FeatureChange
    from toolcrib.runtime.features import Features
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.client_sessions import ClientSession, ClientSessions
    from toolcrib.transports.mcp.notifications import Notifications

PAGE: Final = 250
"""How many entries one page of a list has."""


class FeatureListHandler:
    """Answers the lists of resources, templates and prompts, completions and subscriptions."""

    def __init__(
        self, runtime: Runtime, clients: ClientSessions, notifications: Notifications
    ) -> None:
        self._runtime = runtime
        self._clients = clients
        self._notifications = notifications
        self._publishing: set[asyncio.Future[None]] = set()
        self._followers = 0
        self._end: Callable[[], None] | None = None
        self.added: set[str] = set()
        """The methods that the author of the server answers."""

    def offers(self, kind: str) -> bool:
        """Whether there are `resources` or `completions`, or some may come with a server."""
        method = "completion/complete" if kind == "completions" else f"{kind}/list"
        if method in self.added:
            return True
        runtime = self._runtime
        try:
            return self._features.may_have(kind)
        except Refused:
            # It is not started yet, or closes.
            return bool(runtime.config.mcp_servers or runtime.registry.features.all)

    async def resources(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> HandlerResult:
        """Answer `resources/list`."""
        client = await self._reader(ctx, "resources/list")
        listing = await self._features.visible(client.session_id, client.who)
        return _page(listing.resources, "resources", params)

    async def templates(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> HandlerResult:
        """Answer `resources/templates/list`."""
        client = await self._reader(ctx, "resources/templates/list")
        listing = await self._features.visible(client.session_id, client.who)
        return _page(listing.templates, "resourceTemplates", params)

    async def prompts(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> HandlerResult:
        """Answer `prompts/list`."""
        client = await self._reader(ctx, "prompts/list")
        listing = await self._features.visible(client.session_id, client.who)
        return _page(listing.prompts, "prompts", params)

    async def complete(
        self, ctx: ServerRequestContext[Any, Any], params: CompleteRequestParams
    ) -> HandlerResult:
        """Answer `completion/complete`. A completion is no read: nothing is recorded, and it is
        refused where the policy denies the read.
        """
        client = await self._reader(ctx, "completion/complete")
        ref = params.ref
        is_prompt = isinstance(ref, PromptReference)
        reference = {"name": ref.name} if isinstance(ref, PromptReference) else {"uri": ref.uri}
        argument = {"name": params.argument.name, "value": params.argument.value}
        known = (params.context.arguments if params.context else None) or {}
        completion = await self._features.complete(
            client.session_id, client.who, reference, argument, known
        )
        if completion is None:
            what = "prompt" if is_prompt else "resource template"
            raise MCPError(INVALID_PARAMS, f"Unknown {what}", {"ref": reference})
        facts: dict[str, Any] = {
            "values": list(completion.values),
            "hasMore": completion.has_more,
        }
        if completion.total is not None:
            facts["total"] = completion.total
        return {"resultType": "complete", "completion": facts}

    async def subscribe(
        self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams
    ) -> EmptyResult:
        """Answer `resources/subscribe`."""
        client = await self._reader(ctx, "resources/subscribe")
        uri = params.uri
        if self._notifications.is_subscribed(ctx, uri):
            return EmptyResult()
        try:
            end = await self._features.subscribe(client.session_id, client.who, uri)
        except CallEnded as ended:
            is_missing = ended.failure.kind == "not_found"
            code = RESOURCE_NOT_FOUND if is_missing else INVALID_REQUEST
            raise MCPError(code, ended.failure.message, {"uri": uri}) from None
        self._notifications.add_subscriber(ctx, uri, end)
        return EmptyResult()

    async def unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        """Answer `resources/unsubscribe`."""
        await self._reader(ctx, "resources/unsubscribe")
        await self._notifications.discard_subscriber(ctx, params.uri)
        return EmptyResult()

    async def listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Answer `subscriptions/listen`. URIs that the client may not read, or whose server sends
        no updates, are left out of what is acknowledged. One that nobody knows is kept: the author
        of the server may publish updates of it.
        """
        uris = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        ends: list[Callable[[], Awaitable[None]]] = []
        self._follow()
        try:
            if uris:
                client = await self._reader(ctx, "subscriptions/listen")
                refused: set[str] = set()
                for uri in uris:
                    try:
                        ends.append(
                            await self._features.subscribe(client.session_id, client.who, uri)
                        )
                    except CallEnded as ended:
                        if ended.failure.kind != "not_found":
                            refused.add(uri)
                honored = [uri for uri in uris if uri not in refused]
                wanted = params.notifications.model_copy(update={"resource_subscriptions": honored})
                params = params.model_copy(update={"notifications": wanted})
            return await self._notifications.listen(ctx, params)
        finally:
            for end in ends:
                await end()

    async def knows(self, ctx: ServerRequestContext[Any, Any], uri: str) -> bool:
        """Whether a read of this URI is for the runtime, rather than for the author's handler."""
        client = await self._clients.of(ctx)
        return await self._features.knows(client.session_id, uri)

    @contextmanager
    def following(self) -> Generator[None]:
        """Tell clients of changes while any client is served."""
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
            if self._followers == 0 and self._end is not None:
                self._end()
                self._end = None

    @property
    def _features(self) -> Features:
        return self._runtime.service.features

    async def _reader(self, ctx: ServerRequestContext[Any, Any], method: str) -> ClientSession:
        self._clients.principal_of_request(ctx).check(("caller", "auditor"), method)
        client = await self._clients.of(ctx)
        self._notifications.subscribe(ctx)
        self._follow()
        return client

    def _follow(self) -> None:
        """Hear of changes from the first request on: a client without one has no list."""
        if self._end is not None:
            return
        loop = asyncio.get_running_loop()

        def hear(change: FeatureChange) -> None:
            # Called in the thread that changes the registry.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._publish, change)

        self._end = self._features.follow(hear)

    def _publish(self, change: FeatureChange) -> None:
        event: ServerEvent
        match change.kind:
            case "resources":
                event = ResourcesListChanged()
            case "prompts":
                event = PromptsListChanged()
            case "updated":
                event = ResourceUpdated(uri=change.uri or "")
        publishing = asyncio.ensure_future(self._notifications.publish(event))
        self._publishing.add(publishing)
        publishing.add_done_callback(self._publishing.discard)


def _page(
    entries: Mapping[str, Mapping[str, Any]], key: str, params: PaginatedRequestParams | None
) -> HandlerResult:
    start = _offset(params.cursor if params is not None else None)
    listed = [dict(entry) for entry in entries.values()]
    page: dict[str, Any] = {"resultType": "complete", key: listed[start : start + PAGE]}
    if start + PAGE < len(listed):
        page["nextCursor"] = base64.urlsafe_b64encode(str(start + PAGE).encode()).decode()
    return page


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    try:
        text = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode()
        if text.isdecimal() and len(text) < 10:
            return int(text)
    except (binascii.Error, ValueError):
        pass
    raise MCPError(INVALID_PARAMS, "unknown cursor; list again from the beginning")
