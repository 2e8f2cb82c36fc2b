"""How replicas of one store know each other's requests: signed with a key that is derived from the
store's, for one target, one body and one minute, and taken once.

No token and no cookie stands for it, and it stands for neither.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from toolcrib.clock import SYSTEM_CLOCK
from toolcrib.serving.login import LoginFailed

if TYPE_CHECKING:
    from toolcrib.clock import Clock

PURPOSE: Final = "replica requests"
"""What the keys are derived for."""
SCHEME: Final = "Toolcrib-Replica"
PROOF_HEADER: Final = "x-toolcrib-proof"
"""The header of an answer that shows who gave it."""
VALID_SECONDS: Final = 60.0
"""How old a request may be, or how far ahead: clocks of replicas are set, but not to the same."""

_FORM: Final = re.compile(
    rf"{SCHEME} ([0-9a-f]{{1,64}})\.([0-9a-f]{{1,64}})\.(\d{{1,12}})\.([0-9a-f]{{32}})"
    r"\.([0-9a-f]{64})",
    re.ASCII,
)
_WHO: Final = "a replica's credential"


@dataclass(frozen=True, slots=True)
class ReplicaRequest:
    """What a credential is for."""

    method: str
    path: str
    """With the query, as it is sent."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A credential, as the header `Authorization`, and what the proof of its answer is bound to."""

    authorization: str
    nonce: str


@dataclass(frozen=True, slots=True)
class KnownReplica:
    """The sender of a request whose credential holds."""

    replica_id: str
    nonce: str


class MisdirectedRequest(Exception):
    """A request for another replica: the address of that one leads here."""


class ReplicaCredential:
    """Signs the requests of this replica, and checks those of others. Of `keys`, which come from
    `SharedStore.derived_keys`, the first signs and all verify.
    """

    def __init__(
        self, keys: Sequence[bytes], replica_id: str, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._keys = tuple(keys)
        self._replica_id = replica_id
        self._clock = clock
        self._taken: OrderedDict[str, float] = OrderedDict()
        """The nonces of requests that could come again, with the time until which they could."""

    def sign(self, request: ReplicaRequest, target: str) -> SignedRequest:
        """The credential of a request to the replica `target`."""
        nonce, at = secrets.token_hex(16), str(int(self._clock()))
        names = (target, self._replica_id, at, nonce)
        mac = _mac(self._keys[0], request, names)
        return SignedRequest(f"{SCHEME} {'.'.join(names)}.{mac}", nonce)

    def admit(self, authorization: str | None) -> None:
        """Whether a request may be read at all, before there is a body whose signature can be
        checked. Raises as `check`.
        """
        self._claim(authorization)

    def check(self, request: ReplicaRequest, authorization: str | None) -> KnownReplica:
        """The sender of a request. Raises `MisdirectedRequest`, and `LoginFailed` when it is
        forged, old, or was taken before.
        """
        *names, mac = self._claim(authorization)
        # Every key is tried, so that the time says nothing about which of them it was.
        matches = [hmac.compare_digest(_mac(key, request, names), mac) for key in self._keys]
        if not any(matches):
            raise LoginFailed(
                "invalid",
                "the signature does not fit: the replicas have different store keys, or somebody "
                "changed the request",
                _WHO,
            )
        _, sender, _, nonce = names
        self._take(nonce, self._clock())
        return KnownReplica(sender, nonce)

    def _claim(self, authorization: str | None) -> tuple[str, ...]:
        """What a credential claims, which is for this replica and for now."""
        found = _FORM.fullmatch(authorization or "")
        if found is None:
            raise LoginFailed("unknown", "only replicas of this store may ask here", _WHO)
        claim = found.groups()
        if claim[0] != self._replica_id:
            raise MisdirectedRequest
        apart = self._clock() - int(claim[2])
        if abs(apart) > VALID_SECONDS:
            raise LoginFailed(
                "expired",
                f"the request was signed {abs(apart):.0f} s {'ago' if apart > 0 else 'ahead'}; the "
                "clocks of the replicas are apart, or it was sent again",
                _WHO,
            )
        return claim

    def prove(self, known: KnownReplica, body: bytes = b"") -> str:
        """The proof that this replica answers a request; of a stream, without its body."""
        return _proof(self._keys[0], self._replica_id, known.nonce, body)

    def is_proven(
        self, signed: SignedRequest, target: str, proof: str | None, body: bytes = b""
    ) -> bool:
        """Whether an answer is that of the replica which the request was for."""
        given = (proof or "").encode("utf-8", "replace")
        matches = [
            hmac.compare_digest(_proof(key, target, signed.nonce, body).encode(), given)
            for key in self._keys
        ]
        return any(matches)

    def _take(self, nonce: str, now: float) -> None:
        while self._taken and next(iter(self._taken.values())) < now:
            self._taken.popitem(last=False)
        if nonce in self._taken:
            raise LoginFailed("invalid", "the request was taken before", _WHO)
        self._taken[nonce] = now + 2 * VALID_SECONDS


def _mac(key: bytes, request: ReplicaRequest, names: Sequence[str]) -> str:
    digest = sha256(request.body).hexdigest()
    lines = ("toolcrib replica request 1", request.method, request.path, *names, digest)
    return hmac.digest(key, "\n".join(lines).encode(), "sha256").hex()


def _proof(key: bytes, replica_id: str, nonce: str, body: bytes) -> str:
    lines = ("toolcrib replica answer 1", replica_id, nonce, sha256(body).hexdigest())
    return hmac.digest(key, "\n".join(lines).encode(), "sha256").hex()
