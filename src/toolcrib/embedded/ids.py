"""Names of things, in the form that clients know."""

from __future__ import annotations

import secrets
from typing import Final

_BYTES: Final = 24


def new_id(prefix: str) -> str:
    """A name that nobody can guess, such as `resp_…`."""
    return f"{prefix}_{secrets.token_hex(_BYTES)}"
