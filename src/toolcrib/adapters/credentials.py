"""Credentials, hidden in everything that is written down.

The provider, a server or the model may repeat a credential anywhere: in an item, in an error, in
the answer. The application gets what came; records, events and errors get it hidden.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib.errors import PromptEvaluationError
from toolcrib.tools.redaction import Scrubber, spellings


class Credentials:
    """Hides these secrets wherever they are repeated."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(dict.fromkeys(filter(None, secrets)))
        self._searched = [spelt for secret in self._secrets for spelt in spellings(secret)]

    @cached_property
    def _scrubber(self) -> Scrubber | None:
        return Scrubber(list(self._secrets)) if self._secrets else None

    def hide(self, data: Any) -> Any:
        """JSON data, or a text, without them."""
        return data if self._scrubber is None else self._scrubber.scrub(data)

    def hide_typed(self, value: Any) -> Any:
        """A value of any type: as it is, unless it holds one of them. Then it is JSON without."""
        if self._scrubber is None:
            return value
        try:
            plain = from_json(to_json(value))
        except (PydanticSerializationError, ValueError):
            # A value that is not JSON may hold a secret anywhere.
            return None
        shown = self._scrubber.scrub(plain)
        return value if shown == plain else shown

    @contextmanager
    def hidden_in_errors(self) -> Generator[None]:
        """Take them out of what an error says. Where it was made from one that says more, that one
        is left out too: a log would show it.
        """
        try:
            yield
        except PromptEvaluationError as error:
            texts = [str(link) for link in _chain(error)]
            if texts != self.hide(texts):
                error.args = tuple(self.hide(list(error.args)))
                error.__cause__ = error.__context__ = None
            raise

    def settled(self, text: str) -> int:
        """How much of a text can be hidden for good, though more is to follow: its end may be the
        beginning of one of them, and none must be cut in two.
        """
        end = len(text) - self._begun(text)
        while (start := min(self._across(text, end), default=end)) < end:
            end = start
        return end

    def _begun(self, text: str) -> int:
        """The length of the longest end of a text that one of them begins with."""
        longest = max(map(len, self._searched), default=1) - 1
        sizes = range(min(longest, len(text)), 0, -1)
        return next((size for size in sizes if self._begins_with(text[-size:])), 0)

    def _begins_with(self, end: str) -> bool:
        return any(secret.startswith(end) and secret != end for secret in self._searched)

    def _across(self, text: str, place: int) -> Generator[int]:
        """Where those begin that lie on both sides of a place."""
        for secret in self._searched:
            reach = len(secret) - 1
            start = text.find(secret, max(0, place - reach), place + reach)
            if start >= 0:
                yield start


class Pieces:
    """A text that comes piece by piece: what may be the beginning of a credential is held back
    until more is known.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._pending = ""

    def add(self, piece: str) -> str:
        """What can be shown now."""
        text = self._pending + piece
        end = self._credentials.settled(text)
        self._pending = text[end:]
        return self._credentials.hide(text[:end])

    def rest(self) -> str:
        """What was held back, when nothing follows it."""
        text, self._pending = self._pending, ""
        return self._credentials.hide(text)


def _chain(error: BaseException | None) -> Generator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
