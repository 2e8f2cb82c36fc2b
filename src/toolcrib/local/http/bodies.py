"""Bodies that have to be JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from toolcrib.local.faults import invalid
from toolcrib.local.http.answering import read_json

if TYPE_CHECKING:
    from starlette.requests import Request


async def read_object(request: Request) -> dict[str, Any]:
    """The body, an object. Raises `ApiFault`."""
    body = await read_json(request)
    if not isinstance(body, dict):
        raise invalid("The body must be a JSON object.")
    return cast(dict[str, Any], body)
