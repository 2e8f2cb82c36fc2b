"""`UnknownContent`: what pydantic-ai does not know of a response."""

from __future__ import annotations

from typing import Any

from toolcrib.adapters.pydantic_ai.parts import UNREAD

Json = dict[str, Any]


class UnknownContent:
    """Collects the content of one response that pydantic-ai has no part for.

    Derived classes turn unknown calls and their results into parts; everything else stays JSON and
    goes with the response in its provider details.
    """

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._unread: list[Json] = []

    def keep(self, content: Json) -> None:
        """Keep JSON that is neither a call nor the result of one."""
        self._unread.append(content)

    def attach(self, response: Any) -> None:
        """Add the JSON that was kept to the provider details of a response."""
        if self._unread:
            response.provider_details = {
                **(response.provider_details or {}),
                UNREAD: self._unread,
            }
