"""Makes diffs between two texts, in both dialects, for the tests of the applier."""

import difflib
from collections.abc import Iterator

NO_NEWLINE = "\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]


def lines_of(text: str) -> list[str]:
    """The lines with their newlines; only LF ends a line."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def unified(a: str, b: str, context: int = 3) -> str:
    """A unified diff with line numbers, as `diff -u` writes it."""
    out: list[str] = []
    for group in _groups(a, b, context):
        first, last = group[0], group[-1]
        old = _range(first[1], last[2])
        new = _range(first[3], last[4])
        out.append(f"@@ -{old} +{new} @@\n")
        out += _body(a, b, group)
    return "".join(out)


def v4a(a: str, b: str, context: int = 3) -> str:
    """A V4A diff: the same hunks under a bare `@@`, without line numbers."""
    out: list[str] = []
    for group in _groups(a, b, context):
        out.append("@@\n")
        out += _body(a, b, group)
    return "".join(out)


def _groups(a: str, b: str, context: int) -> Iterator[list[Opcode]]:
    matcher = difflib.SequenceMatcher(None, lines_of(a), lines_of(b), autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        yield [tuple(code) for code in group]  # pyright: ignore[reportReturnType]


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1 if length else start},{length}"


def _body(a: str, b: str, group: list[Opcode]) -> Iterator[str]:
    old, new = lines_of(a), lines_of(b)
    for tag, i1, i2, j1, j2 in group:
        if tag == "equal":
            yield from (_line(" ", text) for text in old[i1:i2])
            continue
        yield from (_line("-", text) for text in old[i1:i2])
        yield from (_line("+", text) for text in new[j1:j2])


def _line(mark: str, text: str) -> str:
    return mark + text if text.endswith("\n") else f"{mark}{text}\n{NO_NEWLINE}\n"
