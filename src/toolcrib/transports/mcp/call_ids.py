"""Ids of calls from which it shows what was called, so that a retry finds the call that waits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from secrets import token_hex
from typing import Any, Final

_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_OURS: Final = re.compile(r"call_([0-9a-f]{16})[0-9a-f]{16}")


def mark(name: str, arguments: Mapping[str, Any]) -> str:
    """The same for every call of a tool with the same arguments, in whichever order they come."""
    return blake2b(_encode([name, arguments]).encode(), digest_size=8).hexdigest()


def new_call_id(mark: str) -> str:
    """An id that no other call has."""
    return f"call_{mark}{token_hex(8)}"


def mark_of(call_id: str) -> str | None:
    """What an id was made for; None when it is not one of ours."""
    found = _OURS.fullmatch(call_id)
    return found[1] if found else None
