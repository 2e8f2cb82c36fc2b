"""What a client of the Agent Client Protocol is told when something is not done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from acp.exceptions import RequestError
from pydantic import ValidationError

from toolcrib.errors import Refused
from toolcrib.transports.refusals import REFUSALS, as_refused

if TYPE_CHECKING:
    from toolcrib.errors import RefusalKind

_OWN_CODES: Final[dict[RefusalKind, int]] = {
    "unauthorized": -32000,
    "forbidden": -32003,
    "not_found": -32002,
}
"""Where the protocol itself has a code, or means something else by ours."""

MOST_FAULTS: Final = 20


def request_error(error: Exception, method: str) -> RequestError:
    """The error for a method of the protocol. What nobody foresaw is logged, and told without its
    text, which may hold what the client must not see.
    """
    refused = _refused(error, method)
    code = _OWN_CODES.get(refused.kind, REFUSALS[refused.kind].code)
    return _made(code, refused)


def operation_error(error: Exception, method: str) -> RequestError:
    """The error for an operation of the runtime, with the code that it has everywhere."""
    refused = _refused(error, method)
    return _made(REFUSALS[refused.kind].code, refused)


def _made(code: int, refused: Refused) -> RequestError:
    return RequestError(code, refused.message, {"kind": refused.kind, "facts": refused.facts})


def _refused(error: Exception, method: str) -> Refused:
    if isinstance(error, ValidationError):
        faults = [
            {"pointer": "/" + "/".join(map(str, each["loc"])), "message": each["msg"]}
            for each in error.errors(include_url=False, include_input=False)[:MOST_FAULTS]
        ]
        first = faults[0]
        told = f"{method}: {first['pointer']}: {first['message']}"
        return Refused("invalid", told, {"faults": faults})
    return as_refused(error, method)
