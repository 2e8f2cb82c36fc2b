"""Takes tools that break the protocol's own rules out of a list, so that the others get through.

The official client refuses a whole list for one bad tool, and with it the whole server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_ERAS: Final = ("2025-11-25", "2026-07-28")


class InvalidToolFilter:
    """Looks at what a server sends. `rejected` are the tools that were taken out, by name."""

    def __init__(self) -> None:
        self.rejected: dict[str, str] = {}

    def look_at(self, item: Any) -> Any:
        """The same item, without bad tools."""
        result = getattr(getattr(item, "message", None), "result", None)
        page = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
        found = page.get("tools")
        tools = cast("list[Any]", found) if isinstance(found, list) else []
        if tools and _fault(page, tools) is not None:
            page["tools"] = [each for each in tools if self._is_good(page, each)]
        return item

    def _is_good(self, page: dict[str, Any], tool: Any) -> bool:
        fault = _fault(page, [tool])
        if fault is None:
            return True
        facts = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        self.rejected[str(facts.get("name", "?"))] = fault
        return False


def _fault(page: dict[str, Any], tools: list[Any]) -> str | None:
    """What is wrong with these tools on this page, if it is they that are wrong."""
    from mcp_types.methods import validate_server_result
    from pydantic import ValidationError

    for era in _ERAS:
        try:
            validate_server_result("tools/list", era, {**page, "tools": []})
        except ValidationError:
            # A page of the other era, or one that is bad by itself.
            continue
        try:
            validate_server_result("tools/list", era, {**page, "tools": tools})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"][2:])
            return f"{where}: {first['msg']}" if where else first["msg"]
    return None


@asynccontextmanager
async def filtered_streams(
    streams: AbstractAsyncContextManager[TransportStreams], sieve: InvalidToolFilter
) -> AsyncGenerator[TransportStreams]:
    """The same streams, with a sieve before what comes in."""
    async with streams as (incoming, outgoing):
        yield cast("Any", _Sieved(incoming, sieve)), outgoing


class _Sieved:
    def __init__(self, incoming: Any, sieve: InvalidToolFilter) -> None:
        self._incoming = incoming
        self._sieve = sieve

    @property
    def last_context(self) -> Any:
        """The context of the last item; the official client carries traces in it."""
        return getattr(self._incoming, "last_context", None)

    async def receive(self) -> Any:
        return self._sieve.look_at(await self._incoming.receive())

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def __aiter__(self) -> _Sieved:
        return self

    async def __anext__(self) -> Any:
        return self._sieve.look_at(await self._incoming.__anext__())

    async def __aenter__(self) -> _Sieved:
        await self._incoming.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> bool | None:
        return await self._incoming.__aexit__(*reason)
