"""The events of the sessions that are open here, for other replicas: one JSON on each line.

Only a replica of the same store may ask, by its credential; no principal is behind it, and the
replica that asks has checked who may see the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import BaseRoute, Route

from toolcrib.errors import Refused
from toolcrib.runtime.messages import MAX_SEQ
from toolcrib.serving.auth import header_text, headers_of, peer_of
from toolcrib.serving.login import LoginFailed
from toolcrib.serving.refusals import HttpRefused, as_bytes, as_refused, send_refusal
from toolcrib.serving.replica_credential import (
    PROOF_HEADER,
    KnownReplica,
    MisdirectedRequest,
    ReplicaCredential,
    ReplicaRequest,
)
from toolcrib.serving.replica_streams import EVENTS_PATH, HEARTBEAT_SECONDS, OVER_LINE
from toolcrib.transports.http.endpoint import query_of
from toolcrib.transports.http.sse import with_heartbeats

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.event_reader import EventReader
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.login import LoginFailures
    from toolcrib.transports.http.connections import Connections

REPLICA_EVENT_ROUTES: Final = frozenset({("GET", EVENTS_PATH)})
"""Behind the credential of a replica in place of a principal's."""
_HEADERS: Final = (
    (b"content-type", b"application/x-ndjson"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


def replica_event_route(
    runtime: Runtime,
    connections: Connections,
    credential: ReplicaCredential,
    failures: LoginFailures,
) -> BaseRoute:
    """The route at which other replicas follow sessions that are open here."""
    endpoint = ReplicaEventsEndpoint(runtime, connections, credential, failures)
    route = Route(EVENTS_PATH, endpoint, methods=["GET"], name="replica.events")
    # Starlette adds HEAD to GET, and a HEAD of an event stream would never end.
    route.methods = {"GET"}
    return route


def request_target(scope: Scope) -> str:
    """Path and query as they were sent: another spelling of a path is not what was signed."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return (path + b"?" + query if query else path).decode("latin-1")


class ReplicaEventsEndpoint:
    """Sends the events of a session until it is not open here any more. An ASGI application."""

    def __init__(
        self,
        runtime: Runtime,
        connections: Connections,
        credential: ReplicaCredential,
        failures: LoginFailures,
    ) -> None:
        self._runtime = runtime
        self._connections = connections
        self._credential = credential
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            known = self._check(scope)
            reader = self._reader(scope)
        except LoginFailed as failure:
            await self._failures.record(peer_of(scope), scope["type"], failure)
            await send_refusal(send, failure.refused)
            return
        except Exception as error:
            await send_refusal(send, as_refused(error, "replica.events"))
            return
        await self._send(known, reader, receive, send)

    def _check(self, scope: Scope) -> KnownReplica:
        authorization = header_text(headers_of(scope), b"authorization")
        request = ReplicaRequest("GET", request_target(scope))
        try:
            return self._credential.check(request, authorization)
        except MisdirectedRequest:
            raise HttpRefused(421, "conflict", "this is another replica") from None

    def _reader(self, scope: Scope) -> EventReader:
        query = query_of(scope)
        session_id, after = query.get("session_id", ""), query.get("after", "")
        if not after.isdecimal() or len(after) > len(str(MAX_SEQ)):
            raise Refused("invalid", "after must be a whole number")
        shared = self._runtime.service.shared_events
        reader = None if shared is None else shared.held(session_id, int(after))
        if reader is None:
            raise Refused("not_found", "the session is not open here")
        return reader

    async def _send(
        self, known: KnownReplica, reader: EventReader, receive: Receive, send: Send
    ) -> None:
        proof = (PROOF_HEADER.encode(), self._credential.prove(known).encode())
        headers = [*_HEADERS, proof]

        async def write(line: bytes) -> None:
            await send({"type": "http.response.body", "body": line + b"\n", "more_body": True})

        async with self._connections.open_reader(reader, receive):
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await write(b"")
            async for envelope in with_heartbeats(reader, HEARTBEAT_SECONDS):
                await write(b"" if envelope == "quiet" else as_bytes(envelope))
            if reader.is_over:
                await write(OVER_LINE)
        await send({"type": "http.response.body", "body": b""})
