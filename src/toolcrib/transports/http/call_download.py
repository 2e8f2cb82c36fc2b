"""All calls of a query as one CSV file, sent page after page: none but the current one is held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import Refused
from toolcrib.runtime.audit_messages import MAX_CALLS
from toolcrib.store.call_query import CallRow

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from toolcrib.runtime.audit_messages import Calls
    from toolcrib.runtime.principal import Principal
    from toolcrib.serving.auth import Headers

AskOperation = Callable[[str, object, "Principal"], Awaitable[Any]]

_HEADERS: Final = (
    (b"content-type", b"text/csv; charset=utf-8; header=present"),
    (b"content-disposition", b'attachment; filename="calls.csv"'),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


def accepts_csv(headers: Headers) -> bool:
    """Whether the client asks for CSV instead of JSON."""
    return b"text/csv" in headers.get(b"accept", b"").lower()


@dataclass(frozen=True, slots=True)
class CallPages:
    """The pages of a query, the first of which is read."""

    ask: AskOperation
    params: dict[str, Any]
    who: Principal
    first: Calls

    @classmethod
    async def begin(cls, ask: AskOperation, params: dict[str, Any], who: Principal) -> CallPages:
        """Read the first page. Raises `Refused`, as `calls.list` does."""
        for name in ("limit", "cursor"):
            if name in params:
                raise Refused("invalid", f"CSV has every call of the query; leave {name} out")
        whole = {**params, "limit": MAX_CALLS}
        return cls(ask, whole, who, await ask("calls.list", whole, who))

    async def send(self, receive: Receive, send: Send) -> None:
        """Send every page. A client that leaves ends the reading."""
        from toolcrib.runtime.call_csv import CALL_COLUMNS, csv_text

        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
        departure = asyncio.ensure_future(_departure(receive))
        try:
            page, text = self.first, csv_text([CALL_COLUMNS])
            while True:
                text += await asyncio.to_thread(_lines, page)
                is_last = page.cursor is None
                await send(
                    {
                        "type": "http.response.body",
                        "body": text.encode(),
                        "more_body": not is_last,
                    }
                )
                if is_last or departure.done():
                    return
                page = await self.ask(
                    "calls.list", {**self.params, "cursor": page.cursor}, self.who
                )
                text = ""
        finally:
            departure.cancel()


def _lines(page: Calls) -> str:
    from toolcrib.runtime.call_csv import call_cells, csv_text

    names = [field.name for field in fields(CallRow)]
    rows = ({name: getattr(row, name) for name in names} for row in page.calls)
    return csv_text(map(call_cells, rows))


async def _departure(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
