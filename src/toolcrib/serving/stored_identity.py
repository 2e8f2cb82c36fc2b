"""Tokens, sign-ins and one-time links that the servers on a shared store have in common, as digests
only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.serving.sign_ins import SignInEntries, SignInFile, sign_ins_json, sign_ins_of
from toolcrib.serving.tokens import TokenRecord, TokenRecords, token_records_of, tokens_json

if TYPE_CHECKING:
    from toolcrib.serving.shared_document import SharedDocument

T = TypeVar("T")

TOKENS_NAME: Final = "tokens"
SIGN_INS_NAME: Final = "sign-ins"
_PLACE: Final = "the store"


class StoredTokens(TokenRecords):
    """The hashed tokens of a shared store."""

    def __init__(self, document: SharedDocument, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(_PLACE, clock)
        self._document = document

    @property
    def stamp(self) -> tuple[int, ...]:
        """The version of the document."""
        return (self._document.content[0],)

    @property
    def is_stale(self) -> bool:
        """Whether the store could not be asked for some time."""
        return self._document.is_stale

    def records(self) -> tuple[TokenRecord, ...]:
        """The tokens, as this server saw them last. Raises `UsageError` when they are malformed."""
        return token_records_of(self._document.content[1] or tokens_json(()), _PLACE)

    def _edit(self, edit: Callable[[list[TokenRecord]], T]) -> T:
        def change(body: bytes) -> tuple[bytes, T]:
            records = list(token_records_of(body or tokens_json(()), _PLACE))
            result = edit(records)
            return tokens_json(records), result

        return self._document.change(change)


class StoredSignIns(SignInFile):
    """The sign-ins and links of a shared store. A link is used once in all: of two servers that
    take it at once one finds it gone.
    """

    def __init__(self, document: SharedDocument, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(None, clock=clock)
        self._document = document
        self._seen = -1
        self._look_lock = threading.Lock()

    @property
    def is_stale(self) -> bool:
        """Whether the store could not be asked for some time."""
        return self._document.is_stale

    def edit(self, edit: Callable[[SignInEntries], T], *, is_lasting: bool = True) -> T:
        """Change what is kept. Raises `StoreError`. May wait for the database."""

        def change(body: bytes) -> tuple[bytes, T]:
            draft = self._draft(sign_ins_of(body, _PLACE))
            result = edit(draft)
            return sign_ins_json(draft), result

        return self._document.change(change)

    def note(self, edit: Callable[[], object]) -> None:
        """Change something that nobody waits for: not in the way of a request."""
        threading.Thread(target=edit, name="toolcrib-sign-in-seen", daemon=True).start()

    def _look(self) -> None:
        # Requests look in their loop, and changes in threads: neither may bring back the older one.
        with self._look_lock:
            version, body = self._document.content
            if version != self._seen:
                self._keep(sign_ins_of(body, _PLACE))
                self._seen = version
