"""Refusals as MCP errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from pydantic import ValidationError

from toolcrib.serving.refusals import as_refused

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from toolcrib.errors import RefusalKind, Refused

# The JSON-RPC codes of the other kinds mean something else in MCP: they share a general code.
_CODES: Final[dict[RefusalKind, int]] = {
    "invalid": INVALID_PARAMS,
    "unavailable": INTERNAL_ERROR,
    "closing": INTERNAL_ERROR,
    "internal": INTERNAL_ERROR,
}


def as_error(refused: Refused) -> MCPError:
    """The MCP error for a refusal."""
    code = _CODES.get(refused.kind, INVALID_REQUEST)
    data = {"kind": refused.kind, "facts": dict(refused.facts)}
    return MCPError(code=code, message=refused.message, data=data)


async def hide_details(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware that turns refusals into errors, and withholds the text of unexpected exceptions,
    which the SDK would send to the client.
    """
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        raise as_error(as_refused(error, ctx.method)) from None
