"""Where each operation is found over HTTP."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Final, Literal

from toolcrib.runtime.operations import OPERATIONS, Operation

Verb = Literal["GET", "POST", "DELETE"]
Streams = Literal["never", "events", "answer"]
"""What `Accept: text/event-stream` gives: nothing, the session's events as they happen, or those
events until the answer.
"""


@dataclass(frozen=True, slots=True)
class OperationRoute:
    """One operation at a verb and a path. What stands in braces is a parameter of that name; the
    others are in the query, or in the body of a POST.
    """

    name: str
    verb: Verb
    path: str
    status: int = 200
    streams: Streams = "never"

    @property
    def operation(self) -> Operation:
        """What is done there."""
        return OPERATIONS[self.name]

    @property
    def in_path(self) -> tuple[str, ...]:
        """The parameters that the path holds."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @property
    def takes_key(self) -> bool:
        """Whether an `Idempotency-Key` may be given."""
        return any(each.name == "idempotency_key" for each in fields(self.operation.params))


_SESSION: Final = "/v1/sessions/{session_id}"

# The first match is taken, so what is asked most often comes first.
ROUTES: Final = (
    OperationRoute("tools.call", "POST", f"{_SESSION}/tools/{{name}}/call", streams="answer"),
    OperationRoute("prompt.send", "POST", f"{_SESSION}/prompt", streams="answer"),
    OperationRoute("events.list", "GET", f"{_SESSION}/events", streams="events"),
    OperationRoute("tools.list", "GET", f"{_SESSION}/tools"),
    OperationRoute("tools.info", "GET", f"{_SESSION}/tools/{{name}}"),
    OperationRoute("tools.cancel", "POST", f"{_SESSION}/calls/{{call_id}}/cancel"),
    OperationRoute("prompt.resume", "POST", f"{_SESSION}/prompt/resume", streams="answer"),
    OperationRoute("prompt.cancel", "POST", f"{_SESSION}/prompt/cancel"),
    OperationRoute("session.create", "POST", "/v1/sessions", status=201),
    OperationRoute("session.list", "GET", "/v1/sessions"),
    OperationRoute("session.get", "GET", _SESSION),
    OperationRoute("session.resume", "POST", f"{_SESSION}/resume"),
    OperationRoute("session.fork", "POST", f"{_SESSION}/fork", status=201),
    OperationRoute("session.close", "POST", f"{_SESSION}/close"),
    OperationRoute("session.delete", "DELETE", _SESSION),
    OperationRoute("approvals.list", "GET", "/v1/approvals"),
    OperationRoute("approvals.get", "GET", "/v1/approvals/{approval_id}"),
    OperationRoute("approvals.decide", "POST", "/v1/approvals/{approval_id}/decide"),
    OperationRoute("grants.list", "GET", "/v1/grants"),
    OperationRoute("grants.revoke", "DELETE", "/v1/grants/{grant_id}"),
    OperationRoute("runtime.capabilities", "GET", "/v1/capabilities"),
)
