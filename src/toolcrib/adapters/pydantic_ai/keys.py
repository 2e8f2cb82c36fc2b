"""The keys that a model reaches its provider with, so that no error repeats them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from typing import Any, Final

from toolcrib.adapters.pydantic_ai.models import speakers

# Every SDK keeps them somewhere else; where none is found, there is none to hide.
_IN_CLIENTS: Final = (
    "api_key",
    "auth_token",
    "_api_client.api_key",
    "sdk_configuration.security.api_key",
    "_request_signer._credentials.secret_key",
    "_request_signer._credentials.token",
    "_request_signer._auth_token.token",
)


def keys_of(model: Any) -> list[str]:
    """The keys of all clients that a model speaks through."""
    return list(dict.fromkeys(key for each in speakers(model) for key in _keys(each)))


def _keys(model: Any) -> Iterator[str]:
    places = ("api_key", *(f"client.{place}" for place in _IN_CLIENTS))
    for place in (*places, *(f"provider.{place}" for place in places)):
        # Clients may fetch what is asked of them, and fail at it.
        with suppress(Exception):
            key = reduce(getattr, place.split("."), model)
            if isinstance(key, str) and key:
                yield key
