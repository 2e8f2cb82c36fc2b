"""The HTTP method and path of every operation."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Final, Literal

from toolcrib.runtime.operations import OPERATIONS, Operation

Verb = Literal["GET", "POST", "DELETE"]
Streams = Literal["never", "events", "answer", "inbox"]
"""What a client that accepts `text/event-stream` gets: JSON all the same, the events of the
session, those events and then the result, or the states of the inbox.
"""


@dataclass(frozen=True, slots=True)
class OperationRoute:
    """One operation at a method and a path. A name in braces is a parameter; the other parameters
    are in the query, or in the body of a POST.
    """

    name: str
    verb: Verb
    path: str
    status: int = 200
    streams: Streams = "never"
    has_csv: bool = False
    """Whether a client that accepts `text/csv` gets all pages of calls in that form."""

    @property
    def operation(self) -> Operation:
        """The operation."""
        return OPERATIONS[self.name]

    @property
    def in_path(self) -> tuple[str, ...]:
        """The names of the parameters in the path."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @property
    def takes_key(self) -> bool:
        """Whether the operation takes an `Idempotency-Key`."""
        return any(field.name == "idempotency_key" for field in fields(self.operation.params))


_SESSION: Final = "/v1/sessions/{session_id}"

# The router takes the first match, so the most frequent operations come first.
ROUTES: Final = (
    OperationRoute("tools.call", "POST", f"{_SESSION}/tools/{{name}}/call", streams="answer"),
    OperationRoute("prompt.send", "POST", f"{_SESSION}/prompt", streams="answer"),
    OperationRoute("events.list", "GET", f"{_SESSION}/events", streams="events"),
    OperationRoute("records.list", "GET", f"{_SESSION}/records"),
    OperationRoute("tools.list", "GET", f"{_SESSION}/tools"),
    OperationRoute("tools.info", "GET", f"{_SESSION}/tools/{{name}}"),
    OperationRoute("tools.cancel", "POST", f"{_SESSION}/calls/{{call_id}}/cancel"),
    OperationRoute("artifacts.get", "GET", f"{_SESSION}/artifacts/{{artifact_id}}"),
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
    OperationRoute("approvals.events", "GET", "/v1/approvals/events", streams="inbox"),
    OperationRoute("approvals.context", "GET", "/v1/approvals/{approval_id}/context"),
    OperationRoute("approvals.get", "GET", "/v1/approvals/{approval_id}"),
    OperationRoute("approvals.decide", "POST", "/v1/approvals/{approval_id}/decide"),
    OperationRoute("questions.list", "GET", "/v1/questions"),
    OperationRoute("questions.answer", "POST", "/v1/questions/{question_id}/answer"),
    OperationRoute("grants.list", "GET", "/v1/grants"),
    OperationRoute("grants.preview", "POST", "/v1/grant-previews"),
    OperationRoute("grants.get", "GET", "/v1/grants/{grant_id}"),
    OperationRoute("grants.revoke", "DELETE", "/v1/grants/{grant_id}"),
    OperationRoute("calls.list", "GET", "/v1/calls", has_csv=True),
    OperationRoute("calls.sums", "GET", "/v1/usage"),
    OperationRoute("catalog.list", "GET", "/v1/catalog"),
    OperationRoute("catalog.get", "GET", "/v1/catalog/{name}"),
    OperationRoute("policy.explain", "POST", "/v1/policy-explanations"),
    OperationRoute("policy.get", "GET", "/v1/policy"),
    OperationRoute("policy.check", "POST", "/v1/policy-checks"),
    OperationRoute("policy.preview", "POST", "/v1/policy-previews"),
    OperationRoute("servers.list", "GET", "/v1/servers"),
    OperationRoute("runtime.capabilities", "GET", "/v1/capabilities"),
)
