"""Globs and regular expressions over arguments: whole values, linear time, every spelling of a
path.

Arguments come from a model, so each match runs on an engine that cannot be made to hang. The globs
of host mounts (`toolcrib.vfs.files`) are another language: they match real file names one by one,
know `[...]`, and look for a pattern without a slash at any depth. Here that would widen an allow
rule.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from toolcrib.errors import InvalidPolicy

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

Stance = Literal["narrow", "wide"]
"""How an ambiguous value is treated. An allow rule must be certain of it (narrow); a deny or ask
rule must not be evaded by it (wide)."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs"})
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_FILE_URL = re.compile("file:(?://[^/]*(?=/))?", re.IGNORECASE)
_OVER_PROC = re.compile(r"\A(?:/proc/(?:self|thread-self|[0-9]+)(?:/task/[0-9]+)?/root)+(?:/|\Z)")
_WILDCARD = re.compile(r"\*\*/|\*\*|\*|\?")
_PATH_REGEX = {"**/": "(?s:.*/)?", "**": "(?s:.*)", "*": "[^/]*", "?": "[^/]"}
_NAME_REGEX = {"**/": "(?s:.*)/", "**": "(?s:.*)", "*": "(?s:.*)", "?": "(?s:.)"}


def has_wildcard(glob: str) -> bool:
    """Whether `glob` can match more than itself."""
    return "*" in glob or "?" in glob


def name_matches(glob: str, name: str) -> bool:
    """Match a tool name or a source: `*` is any text, `?` any single character."""
    if glob == "*" or not has_wildcard(glob):
        return glob in ("*", name)
    return full_match(_translate(glob, paths=False), name)


def path_matches(glob: str, value: str, stance: Stance) -> bool:
    """Match a path: `*` and `?` stop at "/", `**` does not; the whole value must match.

    A wide match goes by every text that a tool may take `value` for, in capitals or small letters,
    and a folder whose whole content matches does so itself.
    """
    if stance == "narrow":
        return is_plain_path(value) and full_match(_translate(glob, paths=True), value)
    globs = (glob, glob[:-3]) if glob.endswith("/**") and len(glob) > 3 else (glob,)
    regex = "|".join(_translate(each, paths=True) for each in globs)
    return any(full_match(f"(?i:{regex})", spelling) for spelling in _spellings(value))


def regex_matches(regex: str, value: str, stance: Stance) -> bool:
    """Match the whole value with a regular expression."""
    return full_match(regex, value if stance == "narrow" else _as_unicode(value))


def is_plain_path(value: str) -> bool:
    """Whether `value` has exactly one reading as a path: no `..`, `//`, `~`, backslash, `file:`,
    percent escape or blank at an end, no invisible character, and valid Unicode.
    """
    if not value.isascii() or not value.isprintable():
        kinds = {unicodedata.category(character) for character in value}
        if kinds & _UNSEEN:
            return False
    is_odd = "\\" in value or value[:1] == "~" or value.strip() != value
    if is_odd or _ESCAPE.search(value) or _FILE_URL.match(value):
        return False
    return ".." not in value.split("/") and _normal(value) == value


def full_match(regex: str, text: str) -> bool:
    """Whether the whole of `text` matches `regex`."""
    return _matcher(regex).isinstance_python(text)


def check_regex(regex: str) -> None:
    """Refuse a regular expression that the linear-time engine does not support."""
    from pydantic_core import SchemaError

    try:
        # Alone first: `a)|(b` would only compile inside the group that anchors it.
        _compile(regex)
        _matcher(regex)
    except SchemaError as error:
        detail = str(error).strip().splitlines()[-1].removeprefix("error: ")
        raise InvalidPolicy(
            f"the regex {regex!r} cannot be used: {detail}. Write it without look-around and "
            "back-references; it must match the whole value"
        ) from None


def _spellings(value: str) -> set[str]:
    """Return every text that a tool may take `value` for: as it is, and after each step by which
    tools, libraries and the system arrive at a file.
    """
    text = _as_unicode(value)
    spellings = {text}
    for step in (_visible, str.strip, unquote, unquote, _without_scheme, _slashed, _cut, _at_home):
        spellings.add(_normal(text))
        text = step(text)
        spellings.add(text)
    spellings |= {_normal(text), _seen_from_root(_normal(text))}
    return spellings


def _visible(text: str) -> str:
    """The text without what only steers its display, in its plain letters."""
    if text.isascii():
        return text
    kept = (character for character in text if unicodedata.category(character) != "Cf")
    return unicodedata.normalize("NFKC", "".join(kept))


def _without_scheme(text: str) -> str:
    url = _FILE_URL.match(text)
    return text if url is None else text[url.end() :]


def _slashed(text: str) -> str:
    return text.replace("\\", "/")


def _cut(text: str) -> str:
    """The text as far as the system reads it."""
    return text.partition("\0")[0]


def _at_home(text: str) -> str:
    return posixpath.expanduser(text) if text.startswith("~") else text


def _seen_from_root(path: str) -> str:
    """The path without a detour over a process's own view of the file system."""
    return _OVER_PROC.sub("/", path, count=1)


def _as_unicode(value: str) -> str:
    # A lone surrogate must not hide a value from a deny rule, and the engine takes none.
    return value.encode("utf-8", "replace").decode()


def _normal(value: str) -> str:
    # POSIX lets exactly two leading slashes mean something else, and normpath keeps them.
    return re.sub(r"\A//(?!/)", "/", posixpath.normpath(value))


@lru_cache(maxsize=1024)
def _translate(glob: str, *, paths: bool) -> str:
    wildcards = _PATH_REGEX if paths else _NAME_REGEX
    regex, end = "", 0
    for match in _WILDCARD.finditer(glob):
        at_segment = match.start() == 0 or glob[match.start() - 1] == "/"
        wildcard = match[0] if at_segment or match[0] != "**/" else "**"
        regex += _literal(glob[end : match.start()]) + wildcards[wildcard]
        end = match.start() + len(wildcard)
    return regex + _literal(glob[end:])


def _literal(text: str) -> str:
    return "".join(c if c.isalnum() else f"\\x{{{ord(c):x}}}" for c in text)


@lru_cache(maxsize=1024)
def _matcher(regex: str) -> SchemaValidator:
    return _compile(rf"\A(?:{regex})\z")


def _compile(regex: str) -> SchemaValidator:
    from pydantic_core import SchemaValidator, core_schema

    return SchemaValidator(
        core_schema.str_schema(pattern=regex, regex_engine="rust-regex", strict=True)
    )
