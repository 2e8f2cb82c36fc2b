"""Removes tools that violate the MCP schema from a server's list, so that the others are usable.

The SDK's client rejects a whole list for one invalid tool, and with it the whole server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from toolcrib.mcp_client.sdk_internals import TransportStreams

_REVISIONS: Final = ("2025-11-25", "2026-07-28")


class InvalidToolFilter:
    """Filters the messages of a server. `rejected` has the reason for each removed tool."""

    def __init__(self) -> None:
        self.rejected: dict[str, str] = {}

    def filter(self, item: Any) -> Any:
        """The same message, without invalid tools."""
        result = getattr(getattr(item, "message", None), "result", None)
        page = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
        listed = page.get("tools")
        tools = cast("list[Any]", listed) if isinstance(listed, list) else []
        if tools and _fault(page, tools) is not None:
            page["tools"] = [tool for tool in tools if self._is_valid(page, tool)]
        return item

    def _is_valid(self, page: dict[str, Any], tool: Any) -> bool:
        fault = _fault(page, [tool])
        if fault is None:
            return True
        facts = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        self.rejected[str(facts.get("name", "?"))] = fault
        return False


def _fault(page: dict[str, Any], tools: list[Any]) -> str | None:
    """The first fault of these tools; None when they are valid, or the page itself is not."""
    from mcp_types.methods import validate_server_result
    from pydantic import ValidationError

    for revision in _REVISIONS:
        try:
            validate_server_result("tools/list", revision, {**page, "tools": []})
        except ValidationError:
            # A page of another protocol revision, or one that is invalid by itself.
            continue
        try:
            validate_server_result("tools/list", revision, {**page, "tools": tools})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"][2:])
            return f"{where}: {first['msg']}" if where else first["msg"]
    return None


@asynccontextmanager
async def filtered_streams(
    streams: AbstractAsyncContextManager[TransportStreams], tool_filter: InvalidToolFilter
) -> AsyncGenerator[TransportStreams]:
    """The same streams, with the incoming one filtered."""
    async with streams as (incoming, outgoing):
        yield cast("Any", _FilteredStream(incoming, tool_filter)), outgoing


class _FilteredStream:
    def __init__(self, incoming: Any, tool_filter: InvalidToolFilter) -> None:
        self._incoming = incoming
        self._tool_filter = tool_filter

    @property
    def last_context(self) -> Any:
        """The context of the last item, in which the SDK's client carries traces."""
        return getattr(self._incoming, "last_context", None)

    async def receive(self) -> Any:
        return self._tool_filter.filter(await self._incoming.receive())

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def __aiter__(self) -> _FilteredStream:
        return self

    async def __anext__(self) -> Any:
        return self._tool_filter.filter(await self._incoming.__anext__())

    async def __aenter__(self) -> _FilteredStream:
        await self._incoming.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> bool | None:
        return await self._incoming.__aexit__(*reason)
