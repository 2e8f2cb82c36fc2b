"""Pictures and other long base64 texts: kept once beside the ledger, named where they occur.

A reference is a text that names the artifact with the whole text: `toolcrib-artifact:data_...`,
after the head of a `data:` URL where it stands for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from hashlib import sha256
from typing import Any, Final, cast

from toolcrib.tools.stored_text import StoredText

REFERENCE: Final = "toolcrib-artifact:"

_LEAST_CHARS: Final = 16_384
_BASE64: Final = re.compile(r"(data:[\w.+/-]+;base64,)?([A-Za-z0-9+/_-]+={0,2})")
_NAMED: Final = re.compile(rf"(data:[\w.+/-]+;base64,)?{REFERENCE}(data_[0-9a-f]{{32}})")
_OPAQUE: Final = frozenset({"encrypted_content", "signature"})
"""Fields whose long texts a provider alone can read; they are sent back and never looked at."""


@dataclass(frozen=True, slots=True)
class KeptText:
    """A text that is kept beside the ledger."""

    artifact_id: str
    artifact_digest: str
    """SHA-256 of the text."""


class Keeper:
    """Takes long base64 texts out of data. `texts` are those that it took, by artifact id.

    `load` reads an artifact; with it, references in typed values can load their texts.
    """

    def __init__(self, load: Callable[[str], str] | None = None) -> None:
        self.texts: dict[str, str] = {}
        self._load = load

    @property
    def kept(self) -> tuple[KeptText, ...]:
        """What an event has to name."""
        return tuple(KeptText(key, _digest(text)) for key, text in self.texts.items())

    def take(self, data: Any) -> Any:
        """JSON or a typed value with references; the same object when there is nothing to take."""
        if isinstance(data, str):
            return self._reference(data) if len(data) >= _LEAST_CHARS else data
        if isinstance(data, Mapping):
            return self._members(cast("Mapping[Any, Any]", data))
        if isinstance(data, list | tuple):
            return self._entries(cast("list[Any] | tuple[Any, ...]", data))
        if is_dataclass(data) and not isinstance(data, type):
            return self._fields(data)
        return data

    def _reference(self, text: str) -> str:
        found = _BASE64.fullmatch(text)
        if found is None:
            return text
        head, body = found[1] or "", found[2]
        artifact_id = f"data_{_digest(body)[:32]}"
        self.texts[artifact_id] = body
        reference, load = f"{head}{REFERENCE}{artifact_id}", self._load
        if load is None:
            return reference
        return StoredText.of(reference, lambda: head + load(artifact_id))

    def _members(self, data: Mapping[Any, Any]) -> Any:
        taken = {key: value if key in _OPAQUE else self.take(value) for key, value in data.items()}
        return taken if any(taken[key] is not data[key] for key in taken) else data

    def _entries(self, data: list[Any] | tuple[Any, ...]) -> Any:
        taken = [self.take(entry) for entry in data]
        if all(new is old for new, old in zip(taken, data, strict=True)):
            return data
        return tuple(taken) if isinstance(data, tuple) else taken

    def _fields(self, data: Any) -> Any:
        changed: dict[str, Any] = {}
        for member in fields(data):
            old = getattr(data, member.name, None)
            if member.init and (new := self.take(old)) is not old:
                changed[member.name] = new
        return replace(data, **changed) if changed else data


def restored(data: Any, kept: Iterable[KeptText], load: Callable[[str], str]) -> Any:
    """JSON with the whole texts in place of references. Only texts in `kept` are meant: others may
    have written something that looks like a reference.
    """
    ids = {text.artifact_id for text in kept}
    return _restore(data, ids, load) if ids else data


def _restore(data: Any, ids: set[str], load: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        named = _NAMED.fullmatch(data)
        return (named[1] or "") + load(named[2]) if named and named[2] in ids else data
    if isinstance(data, dict):
        members = cast("dict[str, Any]", data)
        return {key: _restore(value, ids, load) for key, value in members.items()}
    if isinstance(data, list):
        return [_restore(entry, ids, load) for entry in cast("list[Any]", data)]
    return data


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
