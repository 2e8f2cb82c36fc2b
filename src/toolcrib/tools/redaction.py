"""Redaction: secret arguments are replaced before anything is recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from toolcrib.tools.secrets import SECRET, ArgumentShape, property_names, shape_of

if TYPE_CHECKING:
    pass


SHORTEST_PART = 4
"""Shorter secrets are not searched for inside longer texts: they would match everywhere."""


class Redactor:
    """Replaces the secrets in the arguments of one tool."""

    __slots__ = ("_names", "_shape")

    def __init__(self, shape: ArgumentShape) -> None:
        self._shape = shape
        self._names = property_names(shape)

    def redact(self, arguments: Any) -> Any:
        """Return the arguments as they may be recorded.

        Where the arguments do not have the expected shape, more is hidden rather than less. A
        secret that another argument repeats is hidden there too.
        """
        hidden: list[Any] = []
        shown = _hide(self._shape, arguments, hidden)
        return Scrubber(hidden, self._names).scrub(shown)

    def redact_json(self, raw: bytes | str) -> Any:
        """Like `redact`, for arguments in JSON; text that cannot be parsed is hidden as a whole."""
        from pydantic_core import from_json

        try:
            return self.redact(from_json(raw))
        except ValueError:
            return SECRET

    def scrubber(self, arguments: Any) -> Scrubber:
        """Return a scrubber for the secrets in these arguments."""
        hidden: list[Any] = []
        _hide(self._shape, arguments, hidden)
        return Scrubber(hidden, self._names)

    def scrubber_json(self, raw: bytes | str) -> Scrubber:
        """Like `scrubber`, for arguments in JSON."""
        from pydantic_core import from_json

        try:
            return self.scrubber(from_json(raw))
        except ValueError:
            text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
            return Scrubber([text], self._names)


class Scrubber:
    """Replaces the secrets of one call in results, messages and events.

    Keys that are argument names stay: anyone can read them in the schema.
    """

    __slots__ = ("_names", "_numbers", "_parts", "_texts")

    def __init__(self, secrets: list[Any], names: frozenset[str] = frozenset()) -> None:
        self._names = names
        leaves = [leaf for secret in secrets for leaf in _leaves(secret)]
        self._numbers = frozenset(leaf for leaf in leaves if not isinstance(leaf, str))
        self._texts = frozenset(str(leaf) for leaf in leaves)
        # Longest first: a secret that begins with another one must be replaced as a whole.
        parts = sorted((t for t in self._texts if len(t) >= SHORTEST_PART), key=len, reverse=True)
        self._parts = re.compile("|".join(map(re.escape, parts))) if parts else None

    def scrub(self, data: Any) -> Any:
        """Return JSON data without the secrets. The data is never changed in place."""
        if isinstance(data, str):
            return self._scrub_text(data)
        if isinstance(data, dict):
            members = cast("dict[str, Any]", data).items()
            return {self._scrub_key(key): self.scrub(value) for key, value in members}
        if isinstance(data, list | tuple):
            return [self.scrub(value) for value in cast("list[Any]", data)]
        is_number = isinstance(data, int | float) and not isinstance(data, bool)
        return SECRET if is_number and data in self._numbers else data

    def _scrub_key(self, key: Any) -> Any:
        return key if key in self._names else self.scrub(key)

    def _scrub_text(self, text: str) -> str:
        if text == SECRET or text in self._texts:
            return SECRET
        return self._parts.sub(SECRET, text) if self._parts else text


def redactor_of(schema: Mapping[str, Any]) -> Redactor | None:
    """Return the redactor for arguments of this schema, or `None` when it has no secrets."""
    from pydantic_core import to_json

    text = to_json(schema)
    # Reading the shape is the slow part, and most tools have no secret.
    if b'"writeOnly":true' not in text and b'"password"' not in text:
        return None
    shape = shape_of(schema)
    return Redactor(shape) if shape.has_secrets else None


def _hide(shape: ArgumentShape | None, value: Any, hidden: list[Any]) -> Any:
    if shape is None or not shape.has_secrets or value is None:
        return value
    if isinstance(value, dict) and shape.is_object and not shape.is_secret:
        members = cast("dict[str, Any]", value).items()
        return {key: _hide_member(shape, key, member, hidden) for key, member in members}
    if isinstance(value, list) and shape.is_array and not shape.is_secret:
        elements = enumerate(cast("list[Any]", value))
        return [_hide(shape.member(index), element, hidden) for index, element in elements]
    hidden.append(value)
    return SECRET


def _hide_member(shape: ArgumentShape, key: str, value: Any, hidden: list[Any]) -> Any:
    member = shape.member(key)
    if member is None and shape.is_closed:
        # An unknown key here is a mistake of the caller, perhaps a misspelt secret.
        hidden.append(value)
        return SECRET
    return _hide(member, value, hidden)


def _leaves(secret: Any) -> list[str | int | float]:
    match secret:
        case bool() | None | "":
            return []
        case str() | int() | float():
            return [secret]
        case dict():
            members = cast("dict[str, Any]", secret).values()
            return [leaf for value in members for leaf in _leaves(value)]
        case list():
            return [leaf for value in cast("list[Any]", secret) for leaf in _leaves(value)]
        case _:
            return []
