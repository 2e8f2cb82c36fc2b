"""Faults of a request, as the provider answers them."""

from __future__ import annotations

from toolcrib.errors import ApiFault


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiFault:
    """A fault of the request itself: HTTP status 400."""
    return ApiFault(400, message, param=param, code=code)


def missing(kind: str, resource_id: str, param: str | None = None) -> ApiFault:
    """No resource of this kind has this id: HTTP status 404."""
    return ApiFault(404, f"{kind} with id '{resource_id[:80]}' not found.", param=param)
