"""Images that a request names by a web address, fetched for backends that read images.

The provider fetches them itself: a chat endpoint that got the address would connect to wherever
the caller wants.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from toolcrib.embedded.backend import BackendCallResult, BackendMessage
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.web.download import DownloadKind, download, download_client

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy
    from toolcrib.embedded.backend import BackendInput

MAX_IMAGES: Final = 20
MAX_IMAGE_BYTES: Final = 20 * 1024 * 1024
MAX_BYTES_IN_ALL: Final = 50 * 1024 * 1024
"""The most of all images of one request."""
_SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_IMAGE: Final = DownloadKind(
    "An image",
    "input.image_url",
    f"An image has more than {MAX_IMAGE_BYTES} bytes, or all images together more than "
    f"{MAX_BYTES_IN_ALL}.",
    frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"}),
)


def image_address(data: bytes) -> str | None:
    """An image as a `data:` address; None if it has none of the formats that models read."""
    is_webp = data.startswith(b"RIFF") and data[8:12] == b"WEBP"
    kinds = [kind for start, kind in _SIGNATURES.items() if data.startswith(start)]
    if not kinds and not is_webp:
        return None
    return _address("image/webp" if is_webp else kinds[0], data)


async def fetch_images(history: list[BackendInput], egress: EgressPolicy) -> None:
    """Replace the web addresses of images in a history by their content. Raises `ApiFault`."""
    wanted = dict.fromkeys(
        image
        for turn in history
        if isinstance(turn, BackendMessage | BackendCallResult)
        for image in turn.images
        if not image.startswith("data:")
    )
    if not wanted:
        return
    if len(wanted) > MAX_IMAGES:
        raise invalid(f"At most {MAX_IMAGES} images are fetched; send the others as data: URLs.")
    content: dict[str, str] = {}
    left = MAX_BYTES_IN_ALL
    async with download_client(egress) as client:
        for image in wanted:
            fetched = await download(client, image, _IMAGE, min(left, MAX_IMAGE_BYTES))
            left -= len(fetched.data)
            content[image] = _address(fetched.media_type, fetched.data)
    for at, turn in enumerate(history):
        if isinstance(turn, BackendMessage | BackendCallResult) and turn.images:
            images = tuple(content.get(image, image) for image in turn.images)
            history[at] = replace(turn, images=images)


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
