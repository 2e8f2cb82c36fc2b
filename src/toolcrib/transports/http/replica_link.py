"""Operations between replicas over HTTP: sent to the one that has a session open, and answered for
others. Only the replicas' own credential opens it; no token and no cookie does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import AnswerLost, Refused, ReplicaUnreachable, SessionNotHere
from toolcrib.runtime.replica_routes import (
    NOT_HERE,
    ForwardedOperation,
    answer_json,
    refusal_json,
)
from toolcrib.serving.auth import header_text, headers_of, peer_of
from toolcrib.serving.login import LoginFailed
from toolcrib.serving.refusals import HttpRefused, as_refused, read_body, send_json, send_refusal
from toolcrib.serving.replica_credential import PROOF_HEADER, MisdirectedRequest, ReplicaRequest

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.login import LoginFailures
    from toolcrib.serving.replica_credential import ReplicaCredential
    from toolcrib.store.shared_store import Replica

OPERATIONS_PATH: Final = "/v1/replica/operations"
_MISDIRECTED: Final = 421
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
        """The answer of another replica. Raises `ReplicaUnreachable` and `AnswerLost`."""
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(
                # A call may take long; whoever waits looks whether the replica is still there.
                timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
                limits=httpx2.Limits(max_connections=None, keepalive_expiry=_KEEP_SECONDS),
                trust_env=False,
                follow_redirects=False,
            )
        signed = self._credential.sign(
            ReplicaRequest("POST", OPERATIONS_PATH, body), replica.replica_id
        )
        headers = {"authorization": signed.authorization, "content-type": "application/json"}
        try:
            answer = await self._client.post(
                f"{replica.address}{OPERATIONS_PATH}", content=body, headers=headers
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise ReplicaUnreachable(str(error)) from None
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
            raise ReplicaUnreachable(str(error)) from None
        except httpx2.HTTPError as error:
            raise AnswerLost(str(error)) from None
        if 400 <= answer.status_code < 500:
            # It is refused before anything is done.
            raise ReplicaUnreachable(f"it answers {answer.status_code}: {answer.text[:300]}")
        proof = answer.headers.get(PROOF_HEADER)
        if not self._credential.is_proven(signed, replica.replica_id, proof, answer.content):
            raise AnswerLost("the answer is not that of the replica")
        return answer.content

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()


class ReplicaEndpoint:
    """Answers operations that other replicas forward. An ASGI application."""

    def __init__(
        self, runtime: Runtime, credential: ReplicaCredential, failures: LoginFailures
    ) -> None:
        self._runtime = runtime
        self._credential = credential
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            limit = self._runtime.config.max_payload_bytes + _ENVELOPE_BYTES
            body = await read_body(receive, limit)
            authorization = header_text(headers_of(scope), b"authorization")
            request = ReplicaRequest("POST", OPERATIONS_PATH, body)
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
        answer = await self._answer(body)
        proof = (PROOF_HEADER.encode(), self._credential.prove(known, answer).encode())
        await send_json(send, 200, answer, (proof,))

    async def _answer(self, body: bytes) -> bytes:
        try:
            return answer_json(await self._runtime.ask_here(ForwardedOperation.read(body)))
        except SessionNotHere:
            return NOT_HERE
        except Exception as error:
            return refusal_json(as_refused(error, "a forwarded operation"))
