"""Secrets in rows: AES-256-GCM, under a key that the database does not have.

A sealed secret names its key and is bound to its place: a row that is copied elsewhere, or changed,
does not open. Several keys may be given; the first one seals, all of them open.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.errors import StoreError, UsageError
from toolcrib.extras import install_command

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_VARIABLE: Final = "TOOLCRIB_STORE_KEY"
KEY_FILE_VARIABLE: Final = "TOOLCRIB_STORE_KEY_FILE"
HOW_TO_SET: Final = (
    f"set {KEY_VARIABLE} (or {KEY_FILE_VARIABLE}) to the same key on every replica; make one with: "
    "toolcrib store key"
)
_KEY_BYTES: Final = 32
_NAME_BYTES: Final = 8
_NONCE_BYTES: Final = 12


def new_key() -> str:
    """A random key, as text for a variable or a file."""
    return base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def keys_from_environment() -> str | None:
    """The keys of the variable, or of the file that the other variable names; None without both."""
    if text := os.environ.get(KEY_VARIABLE):
        return text
    path = os.environ.get(KEY_FILE_VARIABLE)
    if not path:
        return None
    try:
        return Path(path).read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{KEY_FILE_VARIABLE}: {path} cannot be read: {error}") from None


class Cipher:
    """Seals and opens secrets. Without a key it refuses: nothing is kept in the clear."""

    def __init__(self, keys: str | None) -> None:
        self._keys: Sequence[bytes] = _parse(keys) if keys else ()
        self._ciphers: dict[bytes, AESGCM] = {}

    @property
    def has_key(self) -> bool:
        """Whether secrets can be kept."""
        return bool(self._keys)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the keys that secrets can be opened with, as an error names them."""
        return tuple(_name(key).hex() for key in self._keys)

    @property
    def key_name(self) -> bytes:
        """What every secret begins with that is sealed from now on."""
        return _name(self._first())

    def seal(self, secret: bytes, place: str) -> bytes:
        """A secret as a row keeps it, bound to a place."""
        key = self._first()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher(key).encrypt(nonce, secret, place.encode("utf-8", "surrogatepass"))
        return _name(key) + nonce + sealed

    def open(self, sealed: bytes, place: str) -> bytes:
        """The secret of a row. Raises `StoreError` without its key, and when it was changed."""
        name, nonce = sealed[:_NAME_BYTES], sealed[_NAME_BYTES : _NAME_BYTES + _NONCE_BYTES]
        key = next((each for each in self._keys if _name(each) == name), None)
        if key is None:
            raise StoreError(
                f"a secret of {place} was sealed with key {name.hex()}, which is not among the "
                f"keys of {KEY_VARIABLE}; add it there, after the new one"
            )
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher(key).decrypt(
                nonce,
                sealed[_NAME_BYTES + _NONCE_BYTES :],
                place.encode("utf-8", "surrogatepass"),
            )
        except InvalidTag:
            raise StoreError(
                f"a secret of {place} does not open: its row was changed or moved"
            ) from None

    def derived(self, purpose: str) -> Sequence[bytes]:
        """A key for another purpose from each key, in their order: who knows one of them learns
        nothing of the key that it is made of. Raises `UsageError` without a key.
        """
        if not self._keys:
            raise UsageError(f"the store has no key, which is needed for {purpose}; {HOW_TO_SET}")
        text = b"toolcrib derived key: " + purpose.encode()
        return tuple(hmac.digest(key, text, "sha256") for key in self._keys)

    def _first(self) -> bytes:
        if not self._keys:
            raise StoreError(
                "a secret has to be kept, and the store has no key to encrypt it with; "
                f"{HOW_TO_SET}"
            )
        return self._keys[0]

    def _cipher(self, key: bytes) -> AESGCM:
        cipher = self._ciphers.get(key)
        if cipher is None:
            # Imported for the first secret: most calls hold none.
            try:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            except ModuleNotFoundError:
                raise UsageError(
                    f"secrets need cryptography; run: {install_command('postgres')}"
                ) from None
            cipher = self._ciphers[key] = AESGCM(key)
        return cipher


def _name(key: bytes) -> bytes:
    return sha256(b"toolcrib store key" + key).digest()[:_NAME_BYTES]


def _parse(text: str) -> Sequence[bytes]:
    keys: list[bytes] = []
    for part in text.replace(",", " ").split():
        try:
            key = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            raise UsageError(
                f"a key of the store is not {_KEY_BYTES} bytes in base64; make one with: toolcrib "
                "store key"
            )
        keys.append(key)
    return keys
