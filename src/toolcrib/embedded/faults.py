"""What the provider answers when it will not do something."""

from __future__ import annotations

from toolcrib.errors import ApiFault


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiFault:
    """The request cannot be done as it is."""
    return ApiFault(400, message, param=param, code=code)


def missing(what: str, found: str, param: str | None = None) -> ApiFault:
    """There is nothing of this id."""
    return ApiFault(404, f"{what} with id '{found[:80]}' not found.", param=param)
