"""Requests between replicas over HTTP: operations, for the one that has a session open, calls of
client tools, for the one that the client is connected to, and answers of clients, for the one that
asked. Only the replicas' own credential
opens it; no token and no cookie does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import AnswerLost, Refused, ReplicaUnreachable, SessionNotHere
from toolcrib.runtime.attached_clients import ForwardedCall
from toolcrib.runtime.client_answers import ForwardedAnswer
from toolcrib.runtime.replica_routes import (
    NOT_HERE,
    ForwardedOperation,
    answer_json,
    refusal_json,
)
from toolcrib.serving.auth import header_text, headers_of, peer_of
from toolcrib.serving.login import LoginFailed
from toolcrib.serving.refusals import (
    HttpRefused,
    as_refused,
    read_body,
    send_json,
    send_refusal,
    wait_for_disconnect,
)
from toolcrib.serving.replica_address import url_at
from toolcrib.serving.replica_credential import PROOF_HEADER, MisdirectedRequest, ReplicaRequest
from toolcrib.transports.http.replica_events import request_target

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.login import LoginFailures
    from toolcrib.serving.replica_credential import ReplicaCredential
    from toolcrib.store.shared_store import Replica

OPERATIONS_PATH: Final = "/v1/replica/operations"
CLIENT_CALLS_PATH: Final = "/v1/replica/client-calls"
CLIENT_ANSWERS_PATH: Final = "/v1/replica/client-answers"
_MISDIRECTED: Final = 421
_REFUSED_STATUSES: Final = frozenset({400, 401, 403, 404, 405, 413, _MISDIRECTED, 422})
"""What a replica answers before it does anything. Any other status without its proof may be that of
something in between, which gave up waiting.
"""
_CONNECT_SECONDS: Final = 3.0
_KEEP_SECONDS: Final = 3.0
"""Shorter than servers keep idle connections: one that closes just now would lose the request."""
_ENVELOPE_BYTES: Final = 1_000_000
"""What a forwarded operation may have beside its parameters."""

_log = logging.getLogger(__name__)


class HttpReplicaLink:
    """Asks other replicas over connections that are kept. Close it."""

    def __init__(self, credential: ReplicaCredential) -> None:
        self._credential = credential
        self._client: Any = None

    async def ask(self, replica: Replica, body: bytes) -> bytes:
        """The answer to a `ForwardedOperation`. Raises `ReplicaUnreachable` and `AnswerLost`."""
        return await self._post(replica, OPERATIONS_PATH, body)

    async def run_client_call(self, replica: Replica, body: bytes) -> bytes:
        """The answer to a `ForwardedCall`. Raises `ReplicaUnreachable` and `AnswerLost`."""
        return await self._post(replica, CLIENT_CALLS_PATH, body)

    async def bring_answer(self, replica: Replica, body: bytes) -> bytes:
        """The reply to a `ForwardedAnswer`. Raises `ReplicaUnreachable` and `AnswerLost`."""
        return await self._post(replica, CLIENT_ANSWERS_PATH, body)

    async def _post(self, replica: Replica, path: str, body: bytes) -> bytes:
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(
                # A call may take long; whoever waits looks whether the replica is still there.
                timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
                limits=httpx2.Limits(max_connections=None, keepalive_expiry=_KEEP_SECONDS),
                trust_env=False,
                follow_redirects=False,
            )
        signed = self._credential.sign(ReplicaRequest("POST", path, body), replica.replica_id)
        headers = {"authorization": signed.authorization, "content-type": "application/json"}
        try:
            answer = await self._client.post(url_at(replica, path), content=body, headers=headers)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise ReplicaUnreachable(str(error)) from None
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
            raise ReplicaUnreachable(str(error)) from None
        except httpx2.HTTPError as error:
            raise AnswerLost(str(error)) from None
        if answer.status_code in _REFUSED_STATUSES:
            raise ReplicaUnreachable(f"it answers {answer.status_code}: {answer.text[:300]}")
        proof = answer.headers.get(PROOF_HEADER)
        if not self._credential.is_proven(signed, replica.replica_id, proof, answer.content):
            raise AnswerLost("the answer is not that of the replica")
        return answer.content

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()


Answer = Callable[[bytes, "Receive"], Awaitable[bytes]]


class ReplicaEndpoint:
    """Answers what other replicas post. An ASGI application."""

    def __init__(
        self,
        answer: Answer,
        credential: ReplicaCredential,
        failures: LoginFailures,
        most_bytes: int,
    ) -> None:
        self._answer = answer
        self._credential = credential
        self._failures = failures
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            authorization = header_text(headers_of(scope), b"authorization")
            # Nobody else has this server keep a large body in memory.
            self._credential.admit(authorization)
            body = await read_body(receive, self._most_bytes)
            request = ReplicaRequest("POST", request_target(scope), body)
            known = self._credential.check(request, authorization)
        except MisdirectedRequest:
            text = "this is another replica"
            await send_refusal(send, HttpRefused(_MISDIRECTED, "not_found", text))
            return
        except LoginFailed as failure:
            await self._failures.record(peer_of(scope), scope["type"], failure)
            await send_refusal(send, failure.refused)
            return
        except Refused as refused:
            await send_refusal(send, refused)
            return
        answer = await self._answer(body, receive)
        proof = (PROOF_HEADER.encode(), self._credential.prove(known, answer).encode())
        await send_json(send, 200, answer, (proof,))


def replica_endpoints(
    runtime: Runtime, credential: ReplicaCredential, failures: LoginFailures
) -> Mapping[str, ReplicaEndpoint]:
    """What other replicas post to, by path."""

    async def operate(body: bytes, receive: Receive) -> bytes:
        try:
            return answer_json(await runtime.ask_here(ForwardedOperation.read(body)))
        except SessionNotHere:
            return NOT_HERE
        except Exception as error:
            return refusal_json(as_refused(error, "a forwarded operation"))

    async def run_client_call(body: bytes, receive: Receive) -> bytes:
        try:
            call = runtime.service.run_client_call(ForwardedCall.read(body))
            return await _until_disconnect(call, receive)
        except Exception as error:
            return refusal_json(as_refused(error, "a forwarded call"))

    async def take_answer(body: bytes, receive: Receive) -> bytes:
        try:
            return await runtime.client_answers.take(ForwardedAnswer.read(body))
        except Exception as error:
            return refusal_json(as_refused(error, "a forwarded answer"))

    most_bytes = runtime.config.max_payload_bytes + _ENVELOPE_BYTES
    answers = {
        OPERATIONS_PATH: operate,
        CLIENT_CALLS_PATH: run_client_call,
        CLIENT_ANSWERS_PATH: take_answer,
    }
    return {
        path: ReplicaEndpoint(answer, credential, failures, most_bytes)
        for path, answer in answers.items()
    }


async def _until_disconnect(work: Coroutine[Any, Any, bytes], receive: Receive) -> bytes:
    """The result of work that is cancelled when whoever asked for it has left."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else b""
    finally:
        task.cancel()
        gone.cancel()
