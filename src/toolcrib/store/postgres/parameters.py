"""The parameters of statements: what may be looked for, and what conditions are put together of."""

from __future__ import annotations

import secrets
from typing import Final

from toolcrib.store.stored_text import is_storable

_NOWHERE: Final = f"\x01{secrets.token_hex(16)}"
"""What no row has. Not NULL, which stands for any value in some statements."""


def findable(text: str) -> str:
    """A text to look for; in place of one that no row can have, and the database would refuse,
    another one that no row has.
    """
    return text if is_storable(text) else _NOWHERE


class Parameters:
    """Collects values to look for; each stands in the statement as `$1`, `$2` and so on."""

    def __init__(self, *values: object) -> None:
        self.values = list(values)

    def __call__(self, value: object) -> str:
        self.values.append(findable(value) if isinstance(value, str) else value)
        return f"${len(self.values)}"
