"""The seam to what goes with each request to a server: a token of OAuth, or headers of a principal
that a command prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

    from toolcrib.mcp_client.oauth.live_secrets import LiveScrubber


class RequestCredential(Protocol):
    """A credential that may change while a connection is open."""

    @property
    def scrubber(self) -> LiveScrubber:
        """Removes its secrets from everything that the server sends."""
        ...

    @property
    def auth(self) -> httpx2.Auth:
        """Adds it to requests."""
        ...

    @property
    def how_to_sign_in(self) -> Callable[[], str] | None:
        """What a person does who has to sign in now; None when nobody has to."""
        ...

    def trouble_since(self, started: float) -> str | None:
        """Why a request since then went without it, as a clause; None when none did."""
        ...

    async def news(self, seconds: float) -> None:
        """Wait until there is another one; at most so long."""
        ...
