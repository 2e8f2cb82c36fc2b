"""Logins: who a credential belongs to, whichever way it was issued. Those that fail are logged,
counted, and answered ever more slowly.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Literal

from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import Refused, UsageError
from toolcrib.serving.tokens import token_parts

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.serving.oidc import OidcIssuer, OidcLogins
    from toolcrib.serving.sign_ins import SignedInBy, SignInBasis
    from toolcrib.serving.tokens import TokenRecord, TokenRecords, Tokens, WatchedTokens

_log = logging.getLogger(__name__)
FREE_FAILURES: Final = 5
"""How many failures of one address are answered without delay."""
LONGEST_DELAY: Final = 5.0
LONGEST_RETRY_AFTER: Final = 60
MAX_PEERS: Final = 4_096
_FORGET_SECONDS: Final = 900.0
_MAX_HELD_OF_PEER: Final = 4
_MAX_HELD: Final = 256
_LOGGED_SINGLY: Final = 10
_METRIC: Final = "toolcrib.login.failures"
LONGEST_CREDENTIAL: Final = 16_384
_JWT_START: Final = b"eyJ"

LoginFault = Literal[
    "unknown", "invalid", "expired", "no_role", "insufficient_scope", "unavailable"
]
"""Why a login failed. An expired credential was a valid one, and the last three say nothing against
the credential.
"""


@dataclass(frozen=True, slots=True)
class Login:
    """A credential that was accepted: whose it is, and until when."""

    principal: Principal
    credential: str
    """What to call the credential in a log; never its secret."""
    expires_at: float | None = None
    record: TokenRecord | None = None
    """The token of the file."""
    issuer: str | None = None
    """The OpenID issuer of the credential."""
    sign_in: str | None = None
    """The id of the sign-in whose cookie the credential is."""
    signed_in_by: SignedInBy | None = None


class LoginFailed(Exception):
    """A credential was not accepted."""

    def __init__(self, fault: LoginFault, message: str, credential: str = "a token") -> None:
        super().__init__(message)
        self.fault: LoginFault = fault
        self.message = message
        self.credential = credential

    @property
    def refused(self) -> Refused:
        """What the client is told."""
        match self.fault:
            case "unknown" | "invalid" | "expired":
                return Refused("unauthorized", self.message)
            case "no_role" | "insufficient_scope":
                return Refused("forbidden", self.message)
            case "unavailable":
                return Refused("unavailable", self.message)


class Authenticator:
    """Checks credentials: tokens set in code, tokens of a file, and JWTs of OpenID issuers."""

    def __init__(
        self,
        *,
        tokens: Tokens | None = None,
        token_file: WatchedTokens | None = None,
        oidc: OidcLogins | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if tokens is None and token_file is None and oidc is None:
            raise UsageError("no token is set, so no client could connect; set at least one")
        self._tokens = tokens
        self._token_file = token_file
        self._oidc = oidc
        self._clock = clock

    @property
    def issuers(self) -> Sequence[OidcIssuer]:
        """The issuers whose JWTs are accepted."""
        return () if self._oidc is None else self._oidc.issuers

    async def login(self, credential: bytes) -> Login:
        """The login of a credential. Raises `LoginFailed`."""
        if len(credential) > LONGEST_CREDENTIAL:
            raise LoginFailed("invalid", "the token is too long to be one")
        if credential.startswith(_JWT_START) and self._oidc is not None:
            return await self._oidc.login(credential)
        return self._token_login(credential)

    def is_valid(self, login: Login) -> bool:
        """Whether a login still holds: not revoked, not expired, and with the same rights."""
        expires_at = login.expires_at
        if login.record is not None:
            assert self._token_file is not None, "a record is that of the file"
            if self._token_file.is_stale:
                return False
            current = self._token_file.current(login.record)
            if current is None or current.principal != login.principal:
                return False
            expires_at = current.expires_at
        return expires_at is None or self._clock() < expires_at

    def stands(self, basis: SignInBasis) -> bool:
        """Whether the credential of a sign-in still holds, with the same rights."""
        if basis.expires_at is not None and self._clock() >= basis.expires_at:
            return False
        if basis.by == "oidc":
            return self._oidc is not None and self._oidc.grants(basis)
        if not basis.is_of_file:
            return bool(basis.source) and self.fingerprint(basis.principal) == basis.source
        if self._token_file is None or self._token_file.is_stale:
            return False
        record = self._token_file.record_with(basis.source)
        if record is None or record.principal != basis.principal:
            return False
        return record.expires_at is None or self._clock() < record.expires_at

    def fingerprint(self, principal: Principal) -> str | None:
        """What changes when the tokens that the host sets for a principal do."""
        return None if self._tokens is None else self._tokens.fingerprint(principal)

    @property
    def host_principals(self) -> Sequence[Principal]:
        """The principals of the tokens that the host sets."""
        return () if self._tokens is None else self._tokens.principals

    @property
    def token_file(self) -> TokenRecords | None:
        """The tokens of everybody else."""
        return None if self._token_file is None else self._token_file.file

    def _token_login(self, credential: bytes) -> Login:
        if self._token_file is not None:
            parts = token_parts(credential.decode("latin-1"))
            if parts is not None and self._token_file.is_stale and not self._is_host(credential):
                text = "which tokens hold is not known here now; try again"
                raise LoginFailed("unavailable", text, f"token {parts.token_id}")
            record = None if parts is None else self._token_file.record_of(parts, credential)
            if record is not None:
                return self._record_login(record)
        principal = None if self._tokens is None else self._tokens.principal_of(credential)
        if principal is None:
            parts = token_parts(credential.decode("latin-1"))
            name = "a token" if parts is None else f"token {parts.token_id}"
            text = "this token is not known here; it may have been revoked"
            raise LoginFailed("unknown", text, name)
        return _login_of_host(principal)

    def _is_host(self, credential: bytes) -> bool:
        return self._tokens is not None and self._tokens.principal_of(credential) is not None

    def _record_login(self, record: TokenRecord) -> Login:
        name = f"token {record.id} of {record.name}"
        if record.expires_at is not None and self._clock() >= record.expires_at:
            raise LoginFailed("expired", "this token has expired; ask for a new one", name)
        return Login(record.principal, name, record.expires_at, record)


@lru_cache(maxsize=256)
def _login_of_host(principal: Principal) -> Login:
    """The login of a token that the host sets in code: such tokens do not change."""
    return Login(principal, f"the token of {principal.name}")


@dataclass(slots=True)
class _Failures:
    count: int = 0
    guesses: int = 0
    last_at: float = 0.0
    held: int = 0


class LoginFailures:
    """The failed logins of each address.

    Only failures are slowed: whoever has a valid token gets in at once, also from an address that
    somebody else shares and guesses from (loopback, a proxy, a NAT). The table is bounded; the
    address that has been quiet for longest is forgotten first. `on_failure` gets every reason.
    """

    def __init__(
        self,
        *,
        elapsed: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        counter: Callable[[int, dict[str, str]], object] | None = None,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        self._elapsed = elapsed
        self._sleep = sleep
        self._count = counter or _telemetry_counter()
        self._on_failure = on_failure
        self._peers: OrderedDict[str, _Failures] = OrderedDict()
        self._held = 0

    async def record(self, peer: str, transport: str, failure: LoginFailed) -> int | None:
        """Log and count a failure, and hold the answer back. Returns the seconds after which the
        client may try again, or None while it is not slowed.
        """
        self._count(1, {"reason": failure.fault, "transport": transport})
        if self._on_failure is not None:
            self._on_failure(failure.fault)
        failures = self._failures_of(_network_of(peer))
        failures.count += 1
        _log_failure(peer, transport, failure, failures.count)
        if failure.fault not in ("unknown", "invalid"):
            # The credential is or was a valid one, or could not be judged: nobody is guessing.
            return None
        failures.guesses += 1
        excess = failures.guesses - FREE_FAILURES
        if excess <= 0:
            return None
        await self._hold(failures, min(0.1 * 2 ** min(excess - 1, 10), LONGEST_DELAY))
        return min(ceil(2 ** min(excess - 1, 10)), LONGEST_RETRY_AFTER)

    def _failures_of(self, peer: str) -> _Failures:
        now = self._elapsed()
        failures = self._peers.get(peer)
        if failures is None or now - failures.last_at > _FORGET_SECONDS:
            failures = self._peers[peer] = _Failures()
        self._peers.move_to_end(peer)
        if len(self._peers) > MAX_PEERS:
            self._peers.popitem(last=False)
        failures.last_at = now
        return failures

    async def _hold(self, failures: _Failures, seconds: float) -> None:
        # Answers that are held back occupy connections, so only a few are.
        if failures.held >= _MAX_HELD_OF_PEER or self._held >= _MAX_HELD:
            return
        failures.held += 1
        self._held += 1
        try:
            await self._sleep(seconds)
        finally:
            failures.held -= 1
            self._held -= 1


def _log_failure(peer: str, transport: str, failure: LoginFailed, count: int) -> None:
    """Log the first failures of an address one by one and then every doubling, so that a guesser
    cannot fill the disk.
    """
    if count <= _LOGGED_SINGLY or count & (count - 1) == 0:
        _log.warning(
            "failed login over %s from %s with %s: %s (failure %d from there)",
            transport,
            peer,
            failure.credential,
            failure.message,
            count,
        )


def _network_of(peer: str) -> str:
    """An address, or the /64 of an IPv6 address: one machine has all of those addresses."""
    try:
        address = ip_address(peer)
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False))


def _telemetry_counter() -> Callable[[int, dict[str, str]], object]:
    """The counter of OpenTelemetry's global meter; nothing where its API is not installed."""
    if find_spec("opentelemetry") is None:
        return lambda _, __: None
    from opentelemetry.metrics import get_meter

    meter: Any = get_meter("toolcrib")
    return meter.create_counter(_METRIC, "{failure}", "Failed logins, by reason and transport.").add
