"""Which texts every store can keep as an id or a name."""

from __future__ import annotations

from toolcrib.errors import UsageError


def is_storable(text: str) -> bool:
    """Whether every store can keep it: without the character 0 and half of a surrogate pair."""
    return "\0" not in text and is_unicode(text)


def is_unicode(text: str) -> bool:
    """Whether it has no half of a surrogate pair, which UTF-8 cannot spell."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_new_id(noun: str, text: str) -> None:
    """Raise `UsageError` for an id that not every store can keep."""
    if not is_storable(text):
        raise UsageError(
            f"{text[:80]!r} is not the id of a {noun}: it has the character 0, or half of a "
            "surrogate pair"
        )
