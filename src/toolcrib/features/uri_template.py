"""URI templates of resources: `stock://{item}`, `files:///{+path}`, `search://{topic}{?page}`.

Every URI is matched in linear time, whatever a client sends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote

from toolcrib.errors import InvalidTool

MAX_URI_CHARS: Final = 8_192

_EXPRESSION: Final = re.compile(r"\{([+?]?)([A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*)\}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class UriTemplate:
    """A URI with variables, or without any: then it is the URI of one resource.

    `{name}` is one segment of a path, `{+name}` may have several, and `{?name,other}` at the end
    are parts of the query that a URI may leave out. Raises `InvalidTool`.
    """

    text: str
    variables: tuple[str, ...] = field(init=False)
    optional: frozenset[str] = field(init=False)
    """The variables of the query."""
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _paths: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = self.text
        if not isinstance(text, str) or not _SCHEME.match(text):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(f"resource {text!r}: a URI begins with a scheme, such as stock://")
        if not text.isprintable() or " " in text or len(text) > MAX_URI_CHARS:
            raise InvalidTool(f"resource {text[:200]!r}: a URI has no blanks or control characters")
        head, query = _split_query(text)
        pattern, names, paths = _pattern_of(head, text)
        for name in query:
            if name in names:
                raise InvalidTool(f"resource {text!r}: the variable {name!r} occurs twice")
        object.__setattr__(self, "variables", (*names, *query))
        object.__setattr__(self, "optional", frozenset(query))
        object.__setattr__(self, "_pattern", re.compile(pattern))
        object.__setattr__(self, "_paths", frozenset(paths))

    def match(self, uri: str) -> dict[str, str] | None:
        """The decoded variables of a URI; None when it is not of this template.

        A value never leads out of its place: one segment has no slash, and no path has `..`.
        """
        if len(uri) > MAX_URI_CHARS:
            return None
        head, _, query = uri.partition("?") if self.optional else (uri, "", "")
        match = self._pattern.fullmatch(head)
        if match is None:
            return None
        values = {name: unquote(value) for name, value in match.groupdict().items()}
        if not all(self._is_safe(name, value) for name, value in values.items()):
            return None
        given = parse_qs(query, keep_blank_values=True, max_num_fields=100)
        return values | {name: given[name][0] for name in self.optional if name in given}

    def _is_safe(self, name: str, value: str) -> bool:
        parts = re.split(r"[/\\]", value)
        if name not in self._paths and len(parts) > 1:
            return False
        return "\0" not in value and not any(part in (".", "..") for part in parts)


def _split_query(text: str) -> tuple[str, tuple[str, ...]]:
    """The template before its query expression, and the variables of that."""
    last = list(_EXPRESSION.finditer(text))[-1:]
    if last and last[0][1] == "?" and last[0].end() == len(text):
        return text[: last[0].start()], tuple(last[0][2].split(","))
    return text, ()


def _pattern_of(head: str, text: str) -> tuple[str, list[str], list[str]]:
    pattern, names, paths = "", list[str](), list[str]()
    at = 0
    expressions = list(_EXPRESSION.finditer(head))
    for number, match in enumerate(expressions):
        operator, name = match[1], match[2]
        if operator == "?" or "," in name:
            raise InvalidTool(
                f"resource {text!r}: {match[0]} is not supported here; write {{name}}, {{+name}}, "
                "or {?name,other} at the end"
            )
        if name in names:
            raise InvalidTool(f"resource {text!r}: the variable {name!r} occurs twice")
        following = expressions[number + 1].start() if number + 1 < len(expressions) else len(head)
        literal = head[match.end() : following]
        if not literal and following < len(head):
            raise InvalidTool(f"resource {text!r}: put something between two variables")
        letters = "[^?#]" if operator == "+" else "[^/?#]"
        pattern += _literal(head[at : match.start()], text)
        # Atomic: the value ends at the first place where it can, so nothing is tried twice.
        end = rf"(?={re.escape(literal)})" if literal else r"\Z"
        pattern += rf"(?>(?P<{name}>{letters}+?){end})"
        names.append(name)
        paths += [name] if operator == "+" else []
        at = match.end()
    return pattern + _literal(head[at:], text), names, paths


def _literal(part: str, text: str) -> str:
    if "{" in part or "}" in part:
        raise InvalidTool(f"resource {text!r}: a variable is written {{name}} or {{+name}}")
    return re.escape(part)
