"""How a replica follows the sessions that are open at others: a stream of envelopes, one JSON on
each line, signed for by both sides.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from pydantic import TypeAdapter

from toolcrib.errors import ReplicaUnreachable, UsageError
from toolcrib.runtime.event_reader import Envelope
from toolcrib.serving.replica_address import url_at
from toolcrib.serving.replica_credential import (
    PROOF_HEADER,
    PURPOSE,
    ReplicaCredential,
    ReplicaRequest,
)

if TYPE_CHECKING:
    import httpx2

    from toolcrib.runtime.remote_stream import StreamEnd
    from toolcrib.store.shared_store import Replica, SharedStore

EVENTS_PATH: Final = "/v1/replica/events"
OVER_LINE: Final = b'"over"'
"""The last line when somebody closed or deleted the session."""
HEARTBEAT_SECONDS: Final = 5.0
"""How often a line comes at least: an empty one when nothing happens."""
_QUIET_SECONDS: Final = 3 * HEARTBEAT_SECONDS
"""A replica without a sign of life for this long is not followed any longer."""
_CONNECT_SECONDS: Final = 3.0
_LONGEST_LINE: Final = 256_000_000


def credential_of(store: SharedStore) -> ReplicaCredential | None:
    """The credential of this replica; None for a store without a key."""
    try:
        return ReplicaCredential(store.derived_keys(PURPOSE), store.replica_id)
    except UsageError:
        return None


class ReplicaStreams:
    """Follows sessions at other replicas, over HTTP."""

    def __init__(self, credential: ReplicaCredential) -> None:
        self._credential = credential
        self._envelopes = TypeAdapter(Envelope)

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        import httpx2

        return httpx2.AsyncClient(
            timeout=httpx2.Timeout(_QUIET_SECONDS, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            follow_redirects=False,
            trust_env=False,
        )

    async def follow(
        self, holder: Replica, session_id: str, after: int
    ) -> AsyncGenerator[Sequence[Envelope] | StreamEnd]:
        """The events of a session that another replica has open. Raises `ReplicaUnreachable`,
        and what the connection raises.
        """
        query = urlencode({"session_id": session_id, "after": after})
        request = self._client.build_request("GET", url_at(holder, f"{EVENTS_PATH}?{query}"))
        path = request.url.raw_path.decode("ascii")
        signed = self._credential.sign(ReplicaRequest("GET", path), holder.replica_id)
        request.headers["Authorization"] = signed.authorization
        response = await self._client.send(request, stream=True)
        try:
            proof = response.headers.get(PROOF_HEADER)
            if response.status_code != 200:
                raise ReplicaUnreachable(f"the replica answers with {response.status_code}")
            if not self._credential.is_proven(signed, holder.replica_id, proof):
                raise ReplicaUnreachable("whoever answers does not show that it is the replica")
            rest = b""
            async for piece in response.aiter_raw():
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) > _LONGEST_LINE:
                    raise ReplicaUnreachable("a line of the replica is too long")
                if portion := [self._read(line) for line in lines if line and line != OVER_LINE]:
                    yield portion
                if OVER_LINE in lines:
                    yield "over"
                    return
            yield "ended"
        finally:
            await response.aclose()

    def _read(self, line: bytes) -> Envelope:
        return self._envelopes.validate_json(line, strict=True)

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await self._client.aclose()
