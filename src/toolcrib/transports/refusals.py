"""How each kind of refusal is told, on every transport."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.errors import RefusalKind

UNREADABLE_STATUS: Final = 400
"""The HTTP status of a body that is not JSON at all."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """The numbers of one kind of refusal."""

    code: int
    """The error code of JSON-RPC."""
    status: int
    """The status of HTTP."""


REFUSALS: Final[dict[RefusalKind, Told]] = {
    "unauthorized": Told(-32001, 401),
    "forbidden": Told(-32002, 403),
    "invalid": Told(-32602, 422),
    "not_found": Told(-32004, 404),
    "conflict": Told(-32009, 409),
    "busy": Told(-32010, 409),
    "too_large": Told(-32013, 413),
    "unavailable": Told(-32011, 503),
    "closing": Told(-32012, 503),
    "internal": Told(-32603, 500),
}


def as_refused(error: Exception, operation: str) -> Refused:
    """What is told of an exception. One that nobody foresaw is logged, and told without details:
    its text may hold what the client must not see.
    """
    if isinstance(error, Refused):
        return error
    _log.error("%s failed", operation[:80], exc_info=error)
    return Refused("internal", f"{operation[:80]} failed inside; the log of the runtime says why")
