"""Faults of a request, as the provider answers them."""

from __future__ import annotations

from typing import Final

from toolcrib.errors import ApiFault

PLACE_CHARS: Final = 8
"""The length of the name of a place."""


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiFault:
    """A fault of the request itself: HTTP status 400."""
    return ApiFault(400, message, param=param, code=code)


def missing(
    kind: str, resource_id: str, param: str | None = None, *, here: str | None = None
) -> ApiFault:
    """No resource of this kind has this id: HTTP status 404. `here` is the place of the provider
    that looked: an id that names another one lies where this provider cannot reach it.
    """
    place = place_of(resource_id)
    if here is None or place in (None, here):
        return ApiFault(404, f"{kind} with id '{resource_id[:80]}' not found.", param=param)
    return ApiFault(
        404,
        f"{kind} with id '{resource_id[:80]}' lies with the provider '{place}', and this is "
        f"'{here}'. It is gone if that replica is gone; create another one.",
        param=param,
        code="other_provider",
    )


def place_of(resource_id: str) -> str | None:
    """The place of the provider that made a resource; None when its id does not say."""
    place, dash, _ = resource_id.partition("_")[2].partition("-")
    return place if dash and len(place) == PLACE_CHARS and place.isalnum() else None
