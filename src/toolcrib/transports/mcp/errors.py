"""Refusals as errors of MCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from pydantic import ValidationError

from toolcrib.serving.refusals import as_refused

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

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


async def without_details(
    ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> HandlerResult:
    """Have refusals told as errors, and what nobody foresaw without its text: the SDK would pass
    that on to a client of the handshake protocol.
    """
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        raise as_error(as_refused(error, ctx.method)) from None
