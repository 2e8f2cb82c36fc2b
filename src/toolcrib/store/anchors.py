"""Anchors: the heads of all ledgers at a time, signed, and kept where nobody can rewrite them.

A chain alone cannot show that its end was cut off, that it was made anew or that a whole session is
gone. Against an anchor it can. Anchors are chained too: each names the digest of the one before.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic_core import from_json, to_json

from toolcrib.errors import LedgerBroken, UsageError
from toolcrib.extras import install_command
from toolcrib.ledger.record import Head
from toolcrib.store.store import every

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from toolcrib.clock import Clock
    from toolcrib.store.store import Store

FIRST: Final = ""
"""What the first anchor names as the one before it."""
POST_SECONDS: Final = 10.0
"""How long a webhook may take to answer."""

_log = logging.getLogger("toolcrib.anchors")


@dataclass(frozen=True, slots=True)
class Anchor:
    """Heads that changed since the anchor before, the `number`-th in its place."""

    number: int
    at: float
    previous: str
    heads: tuple[Head, ...]
    key: str | None = None
    """The fingerprint of the key that signed it."""
    signature: str | None = None

    def line(self) -> str:
        """One line of JSON, as it is kept."""
        facts = {**self._facts(), "signature": self.signature}
        return to_json(facts).decode()

    @property
    def digest(self) -> str:
        """What the next anchor names."""
        return sha256(self.line().encode()).hexdigest()

    def signed(self, key: AnchorKey) -> Anchor:
        """The anchor with a signature of everything else in it."""
        named = replace(self, key=key.fingerprint)
        return replace(named, signature=b64encode(key.sign(named.signed_bytes())).decode())

    def signed_bytes(self) -> bytes:
        """What the signature is of."""
        return b"toolcrib anchor\n" + to_json(self._facts())

    @classmethod
    def parse(cls, line: str) -> Anchor:
        """Read what `line` wrote. Raises `LedgerBroken`."""
        try:
            facts: dict[str, Any] = from_json(line)
            heads = tuple(Head.parse(head) for head in facts.pop("heads"))
            return cls(**facts, heads=heads)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise LedgerBroken(f"not an anchor: {line[:80]!r}") from None

    def _facts(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "at": self.at,
            "previous": self.previous,
            "heads": [str(head) for head in self.heads],
            "key": self.key,
        }


class AnchorKey:
    """An Ed25519 key in a PEM file that only its owner can read."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.fingerprint = _fingerprint(_raw(private.public_key()))

    @classmethod
    def load(cls, path: Path) -> AnchorKey:
        """Read a key. Raises `UsageError` when others can read it too, or it is no such key."""
        serialization, ed25519 = _cryptography()
        if not path.is_file():
            raise UsageError(
                f"there is no signing key {path}; make it with: toolcrib audit keygen {path}"
            )
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise UsageError(
                f"others than its owner can read the signing key {path} (mode {mode:03o}); "
                f"run: chmod 600 {path}"
            )
        private: Any = None
        with suppress(ValueError, TypeError):
            private = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if not isinstance(private, ed25519.Ed25519PrivateKey):
            raise UsageError(f"{path} is no Ed25519 key; make one with `toolcrib audit keygen`")
        return cls(private)

    @classmethod
    def create(cls, path: Path) -> AnchorKey:
        """Make a key: the private one at `path`, the public one beside it as `path`.pub."""
        serialization, ed25519 = _cryptography()
        private = ed25519.Ed25519PrivateKey.generate()
        pem = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _write_new(path, pem, 0o600)
        _write_new(Path(f"{path}.pub"), public, 0o644)
        return cls(private)

    def sign(self, data: bytes) -> bytes:
        """The signature of `data`."""
        return self._private.sign(data)


class PublicKey:
    """The key that signatures are checked with."""

    def __init__(self, path: Path) -> None:
        serialization, ed25519 = _cryptography()
        key: Any = None
        with suppress(ValueError):
            key = serialization.load_pem_public_key(path.read_bytes())
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise UsageError(f"{path} is no public Ed25519 key; give the .pub file of a key")
        self._key = key
        self.fingerprint = _fingerprint(_raw(key))

    def check(self, anchor: Anchor) -> None:
        """Raise `LedgerBroken` unless this key signed the anchor as it is."""
        from cryptography.exceptions import InvalidSignature

        try:
            if anchor.signature is None:
                raise LedgerBroken(f"anchor {anchor.number} is not signed")
            self._key.verify(b64decode(anchor.signature), anchor.signed_bytes())
        except (InvalidSignature, ValueError):
            raise LedgerBroken(
                f"anchor {anchor.number} was changed, or signed with another key than "
                f"{self.fingerprint}"
            ) from None


def read_anchors(lines: Iterable[str], key: PublicKey | None) -> list[Anchor]:
    """The anchors of a file, each checked. Raises `LedgerBroken` at the first that is wrong, or
    does not follow the one before it.
    """
    anchors: list[Anchor] = []
    for line in filter(str.strip, lines):
        anchor = Anchor.parse(line)
        if key is not None:
            key.check(anchor)
        last = anchors[-1] if anchors else None
        expected = (last.number + 1, last.digest) if last else (1, FIRST)
        if (anchor.number, anchor.previous) != expected:
            raise LedgerBroken(
                f"anchor {anchor.number} does not follow anchor {expected[0] - 1}: "
                "one is missing or was changed"
            )
        anchors.append(anchor)
    return anchors


class AnchorTarget(Protocol):
    """A place that anchors are sent to."""

    def last(self) -> Anchor | None:
        """The last one that was sent there, as far as it is known."""
        ...

    def send(self, anchor: Anchor) -> None:
        """Send one. Raises `OSError` when it did not arrive."""
        ...


@dataclass(frozen=True, slots=True)
class AnchorFile:
    """Anchors, one a line, in a file on another disk or machine, or one that can only grow."""

    path: Path

    def last(self) -> Anchor | None:
        lines = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
        return Anchor.parse(lines[-1]) if lines else None

    def send(self, anchor: Anchor) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with open(os.open(self.path, flags, 0o600), "ab") as file:
            file.write(anchor.line().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class AnchorHook:
    """Anchors as POST requests to an address of the host's choice."""

    url: str = field(repr=False)
    """It may hold a token, so it is shown nowhere."""

    def last(self) -> Anchor | None:
        return None

    def send(self, anchor: Anchor) -> None:
        request = urllib.request.Request(
            self.url, anchor.line().encode(), {"Content-Type": "application/json"}, method="POST"
        )
        # Another place that answers in this one's name has not got the anchor.
        opener = urllib.request.build_opener(NoRedirects)
        with opener.open(request, timeout=POST_SECONDS) as response:
            response.read(0)


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for a refusal."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


class Anchors:
    """Sends what changed in a store to one target, each time it is told to."""

    def __init__(
        self, store: Store, target: AnchorTarget, key: AnchorKey | None, clock: Clock
    ) -> None:
        self._store = store
        self._target = target
        self._key = key
        self._clock = clock
        self._last = target.last()
        self._sent: dict[str, Head] = {}

    def send_changes(self) -> Anchor | None:
        """Send an anchor of the heads that changed; None when none did. Raises `OSError`."""
        heads = [head for head in _heads(self._store) if self._sent.get(head.session_id) != head]
        if not heads:
            return None
        number, previous = (self._last.number + 1, self._last.digest) if self._last else (1, FIRST)
        anchor = Anchor(number, self._clock(), previous, tuple(heads))
        if self._key is not None:
            anchor = anchor.signed(self._key)
        self._target.send(anchor)
        self._last = anchor
        self._sent.update({head.session_id: head for head in heads})
        return anchor


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorOptions:
    """Where a runtime sends anchors, how often, and what it signs them with."""

    targets: Sequence[AnchorTarget]
    key: AnchorKey | None = None
    every_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.every_seconds <= 0:
            raise UsageError("every_seconds must be more than 0")


def anchors_of(store: Store, options: AnchorOptions, clock: Clock) -> list[Anchors]:
    """One for each target. Raises when a target cannot be continued."""
    return [Anchors(store, target, options.key, clock) for target in options.targets]


async def send_anchors(
    all_anchors: Sequence[Anchors], every_seconds: float, is_stopping: asyncio.Event
) -> None:
    """Send anchors on a schedule, until it is stopped; then once more. What cannot be sent is
    logged and tried again the next time. No call waits for it.
    """
    while not is_stopping.is_set():
        await _send_all(all_anchors)
        with suppress(TimeoutError):
            async with asyncio.timeout(every_seconds):
                await is_stopping.wait()
    await _send_all(all_anchors)


async def _send_all(all_anchors: Sequence[Anchors]) -> None:
    for anchors in all_anchors:
        try:
            await asyncio.to_thread(anchors.send_changes)
        except Exception as error:
            # Its address may hold a token, so the error is named and not quoted.
            _log.warning("an anchor was not sent (%s); it is tried again", type(error).__name__)


def _heads(store: Store) -> Iterator[Head]:
    for info in every(lambda cursor: store.sessions(cursor=cursor)):
        if info.head is not None:
            yield info.head


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise UsageError(
            f"signed anchors need a package that is missing; run: {install_command('audit')}"
        ) from None
    return serialization, ed25519


def _raw(public: Any) -> bytes:
    return public.public_bytes_raw()


def _fingerprint(raw: bytes) -> str:
    return f"ed25519:{sha256(raw).hexdigest()[:32]}"


def _write_new(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, mode), "wb") as file:
            file.write(data)
    except FileExistsError:
        raise UsageError(f"{path} is there already; give another path") from None
