"""The metadata of a resource in a body, and as the filter of a list."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.requests import Request

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.request import Metadata


@cache
def _adapter() -> TypeAdapter[dict[str, str]]:
    return TypeAdapter(Metadata)


def read_metadata(body: Mapping[str, Any], *, is_required: bool = False) -> dict[str, str]:
    """The metadata of a body; null means none. Raises `ApiFault`."""
    if is_required and "metadata" not in body:
        message = "Missing required parameter: 'metadata'."
        raise invalid(message, "metadata", "missing_required_parameter")
    value: object = body.get("metadata")
    if value is None:
        return {}
    try:
        return _adapter().validate_json(to_json(value), strict=True)
    except (ValidationError, ValueError, RecursionError):
        message = "Metadata is at most 16 pairs, with keys of 64 and values of 512 characters."
        raise invalid(message, "metadata") from None


def listed_metadata(request: Request) -> dict[str, str]:
    """The pairs that the listed resources must have: `metadata[KEY]=VALUE` in the query."""
    pairs: dict[str, str] = {}
    for name, value in request.query_params.items():
        if name.startswith("metadata[") and name.endswith("]"):
            pairs[name.removeprefix("metadata[")[:-1]] = value
    return pairs
