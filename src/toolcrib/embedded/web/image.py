"""Images that a request names by a web address, fetched for backends that read images.

The provider fetches them itself: a chat endpoint that got the address would connect to wherever
the caller wants.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from toolcrib.egress import egress_client
from toolcrib.embedded.backend import BackendMessage
from toolcrib.embedded.faults import invalid
from toolcrib.errors import EgressRefused

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from toolcrib.egress import EgressPolicy
    from toolcrib.embedded.backend import BackendInput

MAX_IMAGES: Final = 20
MAX_IMAGE_BYTES: Final = 20 * 1024 * 1024
MAX_BYTES_IN_ALL: Final = 50 * 1024 * 1024
"""The most of all images of one request."""
FETCH_SECONDS: Final = 30.0
_MAX_REDIRECTS: Final = 5
_FORMATS: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})


async def fetch_images(history: list[BackendInput], egress: EgressPolicy) -> None:
    """Replace the web addresses of images in a history by their content. Raises `ApiFault`."""
    wanted = dict.fromkeys(
        image
        for turn in history
        if isinstance(turn, BackendMessage)
        for image in turn.images
        if not image.startswith("data:")
    )
    if not wanted:
        return
    if len(wanted) > MAX_IMAGES:
        raise invalid(f"At most {MAX_IMAGES} images are fetched; send the others as data: URLs.")
    async with egress_client(
        egress, timeout=FETCH_SECONDS, follow_redirects=True, max_redirects=_MAX_REDIRECTS
    ) as client:
        content: dict[str, str] = {}
        left = MAX_BYTES_IN_ALL
        for image in wanted:
            kind, data = await _image(client, image, min(left, MAX_IMAGE_BYTES))
            left -= len(data)
            content[image] = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    for at, turn in enumerate(history):
        if isinstance(turn, BackendMessage) and turn.images:
            images = tuple(content.get(image, image) for image in turn.images)
            history[at] = replace(turn, images=images)


async def _image(client: AsyncClient, address: str, most: int) -> tuple[str, bytes]:
    """The format and the bytes of an image. The fault says nothing about what was fetched."""
    import httpx2

    try:
        async with asyncio.timeout(FETCH_SECONDS):
            return await _fetched(client, address, most)
    except EgressRefused as refused:
        raise invalid(f"An image was not fetched: {refused}.", "input.image_url") from None
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL):
        raise invalid("An image_url does not answer.", "input.image_url") from None


async def _fetched(client: AsyncClient, address: str, most: int) -> tuple[str, bytes]:
    headers = {"accept": ", ".join(sorted(_FORMATS)), "accept-encoding": "identity"}
    body = bytearray()
    async with client.stream("GET", address, headers=headers) as response:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code != 200 or kind not in _FORMATS:
            raise invalid("An image_url is not the address of an image.", "input.image_url")
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > most:
                message = (
                    f"An image has more than {MAX_IMAGE_BYTES} bytes, or all images together "
                    f"more than {MAX_BYTES_IN_ALL}."
                )
                raise invalid(message, "input.image_url")
    return kind, bytes(body)
