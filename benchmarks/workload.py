"""The tool that every contestant runs, the calls it gets, and the check that it was really run."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from pydantic import TypeAdapter


@dataclass
class Filter:
    """The nested argument."""

    site: str
    year: int


@dataclass
class Reply:
    """What the tool returns: every argument, so that a wrong one shows.

    Not frozen: the time to build it is the same for all and would hide the differences.
    """

    query: str
    limit: int
    threshold: float
    tags: list[str]
    site: str
    year: int


async def search(
    query: str, limit: int, tags: list[str], filter: Filter, threshold: float = 0.5
) -> Reply:
    """Search the catalogue and return the best matches."""
    return Reply(query, limit, threshold, tags, filter.site, filter.year)


_REPLY_JSON = TypeAdapter(Reply).serializer


async def search_json(
    query: str, limit: int, tags: list[str], filter: Filter, threshold: float = 0.5
) -> str:
    """Search the catalogue and return the best matches.

    For the peers that hand a dataclass to the model as its repr: their users write this line.
    """
    reply = await search(query, limit, tags, filter, threshold)
    return _REPLY_JSON.to_json(reply).decode()


def _arguments(number: int) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "query": f"blue lathe {number}",
        "limit": number + 1,
        "tags": ["tools", "used", f"lot-{number}"],
        "filter": {"site": f"hall-{number % 7}.example", "year": 1990 + number % 30},
    }
    if number % 2:
        arguments["threshold"] = number / 64
    return arguments


# Many different calls, so that no contestant can win by remembering the last one.
PAYLOADS: tuple[bytes, ...] = tuple(json.dumps(_arguments(n)).encode() for n in range(64))

BAD_NESTED: bytes = json.dumps(
    {**_arguments(1), "filter": {"site": "hall-1.example", "year": "last year"}}
).encode()


def expected(payload: bytes) -> dict[str, Any]:
    """The reply that this call must bring, made without any of the contestants."""
    arguments: dict[str, Any] = json.loads(payload)
    nested: dict[str, Any] = arguments["filter"]
    return {
        "query": arguments["query"],
        "limit": arguments["limit"],
        "threshold": arguments.get("threshold", 0.5),
        "tags": arguments["tags"],
        "site": nested["site"],
        "year": nested["year"],
    }


_ids: Iterator[int] = count(1)


def call_id() -> str:
    """A new id, as a model gives every call its own."""
    return f"call_{next(_ids)}"


def is_reply(text: str) -> bool:
    """Whether this text is a reply of the tool and not a refusal."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and "query" in cast("dict[str, object]", value)
