"""Where other replicas of the same store reach a server."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolcrib.errors import ReplicaUnreachable, UsageError

if TYPE_CHECKING:
    from toolcrib.store.shared_store import Replica


def checked_replica_url(url: str) -> str:
    """The base URL that a person chose. Raises `UsageError` unless it is scheme, host and port."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UsageError(f"the replica URL is malformed; {_FORM}") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"the replica URL has a name or a password in it; {_FORM}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"the replica URL {url[:80]!r} is not one of http or https; {_FORM}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise UsageError(f"the replica URL {url[:80]!r} has more than host and port; {_FORM}")
    return f"{parts.scheme}://{parts.netloc}"


_FORM = "write http://HOST:PORT, as other replicas reach this server"


def url_at(replica: Replica, path: str) -> str:
    """Where a path of another replica is. Raises `ReplicaUnreachable` for an address of the store
    that is none: it must not lead to another path than that which is asked for.
    """
    try:
        return checked_replica_url(replica.address or "") + path
    except UsageError as error:
        raise ReplicaUnreachable(f"the address in the store is not one: {error}") from None


def replica_host(url: str) -> str:
    """The name in the `Host` header of requests of other replicas."""
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


def listener_url(host: str, url: str) -> str:
    """The URL of a listener as other replicas reach it. Raises `UsageError` for one on every
    address: which of them other machines can reach is not known here.
    """
    try:
        is_every = ip_address(host).is_unspecified
    except ValueError:
        is_every = host == ""
    if is_every:
        raise UsageError(
            f"a server on {host or 'every address'} that shares its store must say where other "
            "replicas reach it: --replica-url http://HOST:PORT, or TOOLCRIB_REPLICA_URL"
        )
    return url
