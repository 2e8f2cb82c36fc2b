"""Content that a request names by a web address, fetched under the egress policy."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolcrib.egress import egress_client
from toolcrib.embedded.faults import invalid
from toolcrib.errors import EgressRefused

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from toolcrib.egress import EgressPolicy

FETCH_SECONDS: Final = 30.0
_MAX_REDIRECTS: Final = 5


@dataclass(frozen=True, slots=True)
class DownloadKind:
    """What is fetched, in the words of a fault: `An image`, `input.image_url`, `too large`. Of the
    media types any is taken if none is named.
    """

    name: str
    param: str
    too_large: str
    media_types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FetchedContent:
    """What an address answered."""

    media_type: str
    data: bytes


def download_client(egress: EgressPolicy) -> AsyncClient:
    """A client that connects only where the policy lets it."""
    return egress_client(
        egress, timeout=FETCH_SECONDS, follow_redirects=True, max_redirects=_MAX_REDIRECTS
    )


async def download(
    client: AsyncClient, address: str, kind: DownloadKind, most: int
) -> FetchedContent:
    """Fetch at most so many bytes. The `ApiFault` says nothing about what was fetched."""
    import httpx2

    try:
        async with asyncio.timeout(FETCH_SECONDS):
            return await _fetched(client, address, kind, most)
    except EgressRefused as refused:
        raise invalid(f"{kind.name} was not fetched: {refused}.", kind.param) from None
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL):
        field = kind.param.rpartition(".")[2]
        raise invalid(f"An {field} does not answer.", kind.param) from None


async def _fetched(
    client: AsyncClient, address: str, kind: DownloadKind, most: int
) -> FetchedContent:
    accepted = ", ".join(sorted(kind.media_types)) or "*/*"
    headers = {"accept": accepted, "accept-encoding": "identity"}
    body = bytearray()
    async with client.stream("GET", address, headers=headers) as response:
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_wanted = not kind.media_types or media_type in kind.media_types
        if response.status_code != 200 or not is_wanted:
            field, name = kind.param.rpartition(".")[2], kind.name.lower()
            raise invalid(f"An {field} is not the address of {name}.", kind.param)
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > most:
                raise invalid(kind.too_large, kind.param)
    return FetchedContent(media_type, bytes(body))
