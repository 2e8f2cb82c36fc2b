"""The tokens that principals sent with their own requests, in memory, to be exchanged for tokens of
mounted servers.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class _CallerToken:
    token: str = field(repr=False)
    expires_at: float | None


class CallerTokens:
    """The newest token of each principal, until it expires."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, _CallerToken] = OrderedDict()

    def note(self, principal: str, token: str, expires_at: float | None) -> bool:
        """Remember a token; returns whether it is another one than before."""
        before = self._tokens.get(principal)
        if before is not None and before.token == token:
            return False
        self._tokens[principal] = _CallerToken(token, expires_at)
        self._tokens.move_to_end(principal)
        while len(self._tokens) > _MOST:
            self._tokens.popitem(last=False)
        return True

    def token(self, principal: str) -> str | None:
        """The token of a principal; None when there is none that is valid now."""
        known = self._tokens.get(principal)
        if known is None:
            return None
        if known.expires_at is not None and known.expires_at <= time.time():
            del self._tokens[principal]
            return None
        return known.token
