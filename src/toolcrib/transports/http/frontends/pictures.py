"""Pictures that the provider made, as addresses that a page can show."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.errors import Refused
from toolcrib.ledger.kept_text import REFERENCE
from toolcrib.transports.http.frontends.turn_parts import PictureShown

if TYPE_CHECKING:
    from toolcrib.ledger.events import ToolInvoked
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.frontends.turn_parts import TurnPart

MAX_PICTURE_CHARS: Final = 6_000_000
"""How long the base64 text of a picture may be: clients bound the frames that they read."""

# No SVG: it is a document, which a page might run.
_MEDIA_TYPES: Final = {
    "png": "image/png",
    "webp": "image/webp",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "gif": "image/gif",
}


def pictures_of(event: ToolInvoked) -> Iterator[PictureShown]:
    """The pictures in the result of a call that the provider ran."""
    kept = {text.artifact_id for text in event.kept}
    for media_type, text in _pictures(event.value):
        artifact_id = text.removeprefix(REFERENCE) if text.startswith(REFERENCE) else None
        if artifact_id is None or artifact_id in kept:
            yield PictureShown(event.session_id, event.call_id, media_type, text, artifact_id)


def _pictures(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for entry in cast("list[Any]", value):
            yield from _pictures(entry)
    elif isinstance(value, dict):
        facts = cast("dict[str, Any]", value)
        text, media_type = facts.get("base64"), _MEDIA_TYPES.get(str(facts.get("format")))
        if isinstance(text, str) and text and media_type is not None:
            yield media_type, text
        yield from _pictures(facts.get("images"))


async def with_pictures(
    runtime: Runtime, who: Principal, parts: Iterable[TurnPart]
) -> AsyncGenerator[TurnPart]:
    """The parts, with the pictures that are kept beside the ledger in them. One that is too large
    or was deleted is left out: the output of its call names it.
    """
    for part in parts:
        if not isinstance(part, PictureShown):
            yield part
        elif part.artifact_id is None:
            if len(part.base64) <= MAX_PICTURE_CHARS:
                yield part
        elif (text := await _kept(runtime, who, part)) is not None:
            yield replace(part, base64=text)


async def _kept(runtime: Runtime, who: Principal, part: PictureShown) -> str | None:
    pieces: list[str] = []
    offset: int | None = 0
    while offset is not None:
        params = {"session_id": part.session_id, "artifact_id": part.artifact_id, "offset": offset}
        try:
            page = await runtime.ask("artifacts.get", params, who)
        except Refused as refused:
            if refused.kind != "not_found":
                raise
            return None
        if page.total_chars > MAX_PICTURE_CHARS:
            return None
        pieces.append(page.text)
        offset = page.next_offset
    return "".join(pieces)
