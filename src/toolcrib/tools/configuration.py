"""The configuration of a tool as flat parts: a path, what may be shown of the value, and the whole.

Every field of a dataclass counts that is not at its default, so a new option is part of a tool's
identity without anybody having to name it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final, cast
from urllib.parse import urlsplit

from toolcrib.tools.handler_code import CREDENTIAL, code_of

_MAX_SHOWN: Final = 120
_MIN_KEY: Final = 16
_ROUNDS: Final = 20_000
_PLAIN_MODULES: Final = frozenset({"datetime", "decimal", "fractions", "ipaddress", "uuid"})
"""Modules of values that are what they are spelt as: times, numbers, addresses, ids."""
_HIDDEN_MAPPINGS: Final = frozenset({"env", "environment", "headers"})
"""Fields whose values may be secret; their names are not."""


@dataclass(frozen=True, slots=True)
class Part:
    """One fact about a tool. `shown` is fit for people and records; `whole` is what is compared,
    and is no secret either.
    """

    shown: str
    whole: str
    type: str = ""
    """Tells apart values of the same text, such as 1 and "1"."""

    @property
    def text(self) -> str:
        """What is stored: `shown`, with a short digest when that is not the whole."""
        if self.shown == self.whole:
            return self.shown
        return f"{self.shown} [{hashlib.sha256(self.whole.encode()).hexdigest()[:12]}]"


def part_of(text: str, type: str = "") -> Part:
    """A part that may be shown, cut when it is long."""
    whole = text.encode(errors="backslashreplace").decode()
    shown = " ".join(whole.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in shown)
    if len(shown) > _MAX_SHOWN:
        shown = f"{shown[: _MAX_SHOWN - 3]}..."
    return Part(shown, whole, type)


def hidden(value: str | bytes, shown: str = "set") -> Part:
    """A part that must not be shown. Its digest is slow to compute, so that nobody finds a short
    secret in a stolen record by trying.
    """
    return Part(shown, _slow_digest(value if isinstance(value, bytes) else _bytes(value)))


def address(url: str) -> Part:
    """An address, of which whatever may be a key is hidden."""
    return hidden(url, shown_address(url))


def shown_address(url: str) -> str:
    """An address without user, query, and names in its path that look like keys."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address"
    names = ["..." if _is_key(name) else name for name in parts.path.split("/")]
    suffix = "?..." if parts.query or parts.fragment else ""
    place = host if port is None else f"{host}:{port}"
    return part_of(f"{parts.scheme}://{place}{'/'.join(names)}{suffix}").shown


def configuration(name: str, value: object) -> Iterator[tuple[str, Part]]:
    """The parts of a value, each under a dotted path that starts with `name`."""
    yield from _parts(name, value, is_hidden=False)


def _parts(path: str, value: object, *, is_hidden: bool) -> Iterator[tuple[str, Part]]:
    last = path.rpartition(".")[2]
    match value:
        case None | bool() | int() | float() | str() | bytes() | Enum() | PurePath():
            yield path, _scalar(last, value, is_hidden=is_hidden)
        case type():
            yield path, part_of(f"{value.__module__}.{value.__qualname__}")
        case Mapping():
            items = cast("Mapping[Any, Any]", value).items()
            yield path, part_of(_list([key for key, _ in items]), "names")
            for key, item in sorted(items, key=lambda pair: str(pair[0])):
                is_secret = last in _HIDDEN_MAPPINGS or bool(CREDENTIAL.search(str(key)))
                yield from _parts(f"{path}.{key}", item, is_hidden=is_hidden or is_secret)
        case tuple() | list() | frozenset() | set():
            yield from _sequence(path, cast("Iterable[object]", value), is_hidden=is_hidden)
        case _ if is_dataclass(value):
            yield path, part_of(type(value).__qualname__)
            yield from _fields(path, value, is_hidden=is_hidden)
        case _ if type(value).__module__ in _PLAIN_MODULES:
            yield path, part_of(str(value), type(value).__qualname__)
        case _ if callable(value):
            code = code_of(value)
            yield path, Part(code.name, f"{code.digest} {code.values}")
        case _:
            yield path, part_of(f"{type(value).__module__}.{type(value).__qualname__}")


def _fields(path: str, value: Any, *, is_hidden: bool) -> Iterator[tuple[str, Part]]:
    # An account stands for its credentials, which are refreshed.
    has_account = getattr(value, "account", None) is not None
    replaced: tuple[str, ...] = getattr(value, "credentials", ()) if has_account else ()
    for field in fields(value):
        item, inner = getattr(value, field.name), f"{path}.{field.name}"
        if field.name in replaced:
            names = cast("Mapping[str, str]", item) if isinstance(item, Mapping) else ()
            shown = _list(sorted(names)) if names else "set" if item else "not set"
            yield inner, part_of(shown, "credential")
        elif not is_default(field, item):
            yield from _parts(inner, item, is_hidden=is_hidden or not field.repr)


def _sequence(path: str, value: Iterable[object], *, is_hidden: bool) -> Iterator[tuple[str, Part]]:
    is_set = isinstance(value, frozenset | set)
    items = sorted(value, key=repr) if is_set else list(value)
    if is_hidden and items:
        whole = "\n".join(part.whole for item in items for _, part in _pairs(item))
        yield path, Part(f"{len(items)} of them", f"{len(items)}\n{whole}")
    elif all(isinstance(item, str | int | float | PurePath) for item in items):
        yield path, part_of(_list(items), "list")
    else:
        yield path, part_of(f"{len(items)} of them")
        for number, item in enumerate(items):
            yield from _parts(f"{path}.{number}", item, is_hidden=False)


def _list(items: Iterable[object]) -> str:
    # With quotes: two names are not one name with a comma in it.
    shown = [repr(str(item) if isinstance(item, PurePath) else item) for item in items]
    return ", ".join(shown) or "nothing"


def _pairs(item: object) -> Iterator[tuple[str, Part]]:
    return _parts("", item, is_hidden=True)


def _scalar(name: str, value: object, *, is_hidden: bool) -> Part:
    match value:
        case None:
            return part_of("none", "none")
        case bool():
            return part_of("on" if value else "off", "bool")
        case bytes():
            return Part(f"{len(value)} bytes", hashlib.sha256(value).hexdigest())
        case Enum():
            return part_of(str(value.value), type(value).__qualname__)
        case str() if name.endswith("url"):
            return address(value)
        case str() if is_hidden:
            return hidden(value)
        case int() | float():
            return part_of(str(value), type(value).__qualname__)
        case _:
            return part_of(str(value))


def is_default(field: Field[Any], value: object) -> bool:
    """Whether a field has the value that it has when nobody sets it."""
    if field.default is not MISSING:
        default = field.default
    elif field.default_factory is not MISSING:
        default = field.default_factory()
    else:
        return False
    if value is default:
        return True
    if type(value) is type(default) and isinstance(value, str | bool | int | float | Enum):
        return value == default
    return list(_parts("", value, is_hidden=True)) == list(_parts("", default, is_hidden=True))


def _is_key(name: str) -> bool:
    # Some services give each user an address of their own, with the key in its path.
    return len(name) >= _MIN_KEY and any(letter.isdigit() for letter in name)


@lru_cache(maxsize=512)
def _slow_digest(value: bytes) -> str:
    return hashlib.pbkdf2_hmac("sha256", value, b"toolcrib identity", _ROUNDS).hex()


def _bytes(value: str) -> bytes:
    return value.encode(errors="surrogatepass")
