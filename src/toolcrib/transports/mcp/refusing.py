"""Refusals as errors of MCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

if TYPE_CHECKING:
    from toolcrib.errors import RefusalKind, Refused

# Our other codes mean other things in MCP, so that the kind is told beside a general one.
_CODES: Final[dict[RefusalKind, int]] = {
    "invalid": INVALID_PARAMS,
    "unavailable": INTERNAL_ERROR,
    "closing": INTERNAL_ERROR,
    "internal": INTERNAL_ERROR,
}


def as_error(refused: Refused) -> MCPError:
    """A refusal as the error that the client gets."""
    code = _CODES.get(refused.kind, INVALID_REQUEST)
    data = {"kind": refused.kind, "facts": dict(refused.facts)}
    return MCPError(code=code, message=refused.message, data=data)
