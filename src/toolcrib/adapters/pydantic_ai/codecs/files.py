"""Files and images among the items: their content, and the call that made them."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import mapping_of, maybe_text, text_of
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.parts import FILE, NATIVE_CALL, NATIVE_RETURN


def is_image(item: RawItem) -> bool:
    """Whether an item is an image that the model made."""
    return item.get("type") == FILE and media_type(item).startswith("image/")


def media_type(item: RawItem) -> str:
    """The media type of a file; empty when it is unknown."""
    return text_of(item, "media_type") or text_of(_content(item), "media_type")


def base64_of(item: RawItem) -> str:
    """The file as base64 in the standard alphabet: the JSON may have the one for URLs."""
    return text_of(_content(item), "data").translate(str.maketrans("-_", "+/"))


def images_of(call: HostedCall, items: Sequence[RawItem]) -> list[RawItem]:
    """The images that a call made: those under its id, else those right after its result."""
    named = [item for item in items if is_image(item) and text_of(item, "id") == call.id]
    return named if named or not call.id else _following(call, items)


def _following(call: HostedCall, items: Sequence[RawItem]) -> list[RawItem]:
    images: list[RawItem] = []
    is_after = False
    for item in items:
        if item.get("type") in (NATIVE_CALL, NATIVE_RETURN):
            is_after = item.get("type") == NATIVE_RETURN and text_of(item, "id") == call.id
        elif is_image(item) and is_after and maybe_text(item, "id") is None:
            images.append(item)
        elif item.get("type") != FILE:
            is_after = False
    return images


def _content(item: RawItem) -> RawItem:
    return mapping_of(item, "content") or mapping_of(mapping_of(item, "part"), "content")
