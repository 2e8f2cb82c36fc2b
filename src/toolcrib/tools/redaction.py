"""Redaction: secret arguments are replaced before anything is recorded.

A secret may come back in many spellings: as JSON, in addresses, in HTML, in code, in base64 and in
hexadecimal, and numbers in every notation. All of them are replaced.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus

from toolcrib.tools.secrets import SECRET, ArgumentShape, property_names, shape_of

SHORTEST_PART: Final = 4
"""Shorter texts are not searched for inside longer ones: they would match everywhere."""

_MORE_DIGITS: Final = 4300
"""Python spells no longer numbers in decimal."""
_LONGEST_NUMBER: Final = 400
"""No longer text is read as a number."""


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
        return Scrubber(self.secrets(arguments), self._names)

    @property
    def names(self) -> frozenset[str]:
        """The names of the arguments, which are no secrets."""
        return self._names

    def secrets(self, arguments: Any) -> list[Any]:
        """The secrets in these arguments."""
        hidden: list[Any] = []
        _hide(self._shape, arguments, hidden)
        return hidden

    def secrets_json(self, raw: bytes | str) -> list[Any]:
        """Like `secrets`, for arguments in JSON; text that cannot be parsed is one as a whole."""
        from pydantic_core import from_json

        try:
            return self.secrets(from_json(raw))
        except ValueError:
            return [raw if isinstance(raw, str) else raw.decode("utf-8", "replace")]


class Scrubber:
    """Replaces secrets in results, messages and events, however they are spelt there.

    Keys that are argument names stay: anyone can read them in the schema.
    """

    __slots__ = ("_names", "_numbers", "_parts", "_texts")

    def __init__(self, secrets: list[Any], names: frozenset[str] = frozenset()) -> None:
        self._names = names
        leaves = [leaf for secret in secrets for leaf in _leaves(secret)]
        self._numbers = frozenset(leaf for leaf in leaves if not isinstance(leaf, str))
        spelt = [spellings(leaf) for leaf in leaves if isinstance(leaf, str)]
        spelt += [number_spellings(number) for number in self._numbers]
        self._texts = frozenset(leaf for leaf in leaves if isinstance(leaf, str))
        self._parts = tuple(dict.fromkeys(part for each in spelt for part in each))

    def scrub(self, data: Any) -> Any:
        """Return JSON data without the secrets. The data is never changed in place."""
        if not self._texts and not self._numbers:
            return data
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
        if text == SECRET or text in self._texts or self._is_number(text):
            return SECRET
        # To look for each costs much less than a pattern of all, and mostly none is there.
        parts = [part for part in self._parts if part in text]
        if not parts:
            return text
        # Longest first: a secret that begins with another one must be replaced as a whole. In one
        # go, so that what stands in the place of one is not searched for another.
        parts.sort(key=len, reverse=True)
        return re.sub("|".join(map(re.escape, parts)), SECRET, text)

    def _is_number(self, text: str) -> bool:
        """Whether a text is nothing but one of the numbers, however short."""
        if not self._numbers or len(text) > _LONGEST_NUMBER:
            return False
        try:
            return float(text) in self._numbers
        except ValueError:
            return False


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


def spellings(secret: str) -> list[str]:
    """How a text may be spelt inside other texts, the longest first and each once."""
    found = {secret, *_escaped(secret), *_in_addresses(secret), *_in_html(secret)}
    found.update(_encoded(secret.encode(errors="surrogatepass")))
    return _longest_first(found)


def number_spellings(number: int | float) -> list[str]:
    """How a number may be spelt inside texts."""
    if isinstance(number, int):
        # More digits than Python spells are in no text.
        found = set(_integers(number)) if abs(number) < 10**_MORE_DIGITS else {hex(number)}
    else:
        found = set(_floats(number))
        if number.is_integer():
            found.update(_integers(int(number)))
    return _longest_first(found)


def _longest_first(texts: set[str]) -> list[str]:
    searched = [text for text in texts if len(text) >= SHORTEST_PART or _is_power(text)]
    return sorted(searched, key=len, reverse=True)


def _is_power(text: str) -> bool:
    """Whether it is a number like 1e7, which is short and still seldom something else."""
    mantissa, _, exponent = text.lower().partition("e")
    return mantissa.isdecimal() and exponent.isdecimal()


def _escaped(secret: str) -> Iterator[str]:
    for is_ascii in (True, False):
        escaped = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        # JSON as a text in JSON.
        yield json.dumps(escaped, ensure_ascii=is_ascii)[1:-1]
    yield repr(secret)[1:-1]
    yield ascii(secret)[1:-1]
    yield repr(secret.encode(errors="surrogatepass"))[2:-1]
    # In the other kind of quotes than `repr` chooses.
    yield repr(secret)[1:-1].replace("\\'", "'").replace("'", "\\'")


def _in_addresses(secret: str) -> Iterator[str]:
    data = secret.encode(errors="surrogatepass")
    # All, all but slashes, and all but what JavaScript leaves as it is.
    for spelt in (quote(data, safe=""), quote(data), quote_plus(data), quote(data, safe="!'()*")):
        yield spelt
        yield _lower_escapes(spelt)


def _lower_escapes(spelt: str) -> str:
    first, *rest = spelt.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _in_html(secret: str) -> Iterator[str]:
    yield html.escape(secret, quote=False)
    escaped = html.escape(secret)
    yield escaped
    for apostrophe in ("&#39;", "&apos;", "'"):
        for quotation in ("&quot;", "&#34;"):
            yield escaped.replace("&#x27;", apostrophe).replace("&quot;", quotation)
    yield html.escape(secret).encode("ascii", "xmlcharrefreplace").decode()


def _encoded(data: bytes) -> Iterator[str]:
    yield data.hex()
    yield data.hex().upper()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            yield from _base64(data, before, encode(bytes(before) + data).decode())


def _base64(data: bytes, before: int, encoded: str) -> Iterator[str]:
    """The characters that say something of the data, behind so many other bytes.

    The data may end there, with or without padding, or be followed by something else.
    """
    start = -(-before * 8 // 6)
    whole = encoded.rstrip("=")
    inner = whole[start : (before + len(data)) * 8 // 6]
    # Fewer would be found in texts that have nothing to do with it.
    if len(inner) > SHORTEST_PART:
        yield inner
        yield whole[start:]
        yield encoded[start:]


def _integers(number: int) -> Iterator[str]:
    yield str(number)
    for separator in (",", "_", ".", " ", "'", "\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}"):
        yield f"{number:,}".replace(",", separator)
    for spelt in (f"{number:x}", f"{number:X}"):
        # Four hexadecimal digits are found everywhere.
        if len(spelt) > SHORTEST_PART:
            yield spelt
    if abs(number) < 1e300:
        yield from _floats(float(number))


def _floats(number: float) -> Iterator[str]:
    yield repr(number)
    yield f"{number:,}"
    for spelt in (f"{number:e}", f"{number:g}", f"{number:.15e}", f"{number:.0e}"):
        mantissa, _, exponent = spelt.partition("e")
        if not exponent or (float(spelt) != number):
            continue
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        for power in (exponent, exponent.lstrip("+"), f"{int(exponent)}", f"+{int(exponent)}"):
            for shown in (mantissa, f"{mantissa}.0"):
                yield f"{shown}e{power}"
                yield f"{shown}E{power}"
