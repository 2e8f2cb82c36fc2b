"""What a server asks for when it refuses a request: RFC 6750 and RFC 9728."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class Challenge:
    """A refusal for want of a token, or of a scope."""

    resource_metadata: str | None = None
    """Where the server says that its metadata are."""
    scope: str | None = None
    is_step_up: bool = False
    """Whether the token is valid and lacks a scope."""


def challenge_of(response: httpx2.Response) -> Challenge | None:
    """The challenge of an answer; None when it is none."""
    from mcp.client.auth.utils import (
        extract_field_from_www_auth,
        extract_resource_metadata_from_www_auth,
        extract_scope_from_www_auth,
    )

    if response.status_code not in (401, 403):
        return None
    error = extract_field_from_www_auth(response, "error")
    is_step_up = response.status_code == 403 and error == "insufficient_scope"
    if response.status_code == 403 and not is_step_up:
        return None
    return Challenge(
        extract_resource_metadata_from_www_auth(response),
        extract_scope_from_www_auth(response),
        is_step_up,
    )
