"""The handler of the memory tool. Its answers use the words of Anthropic's own implementation,
which models are trained on.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from toolcrib.errors import UsageError
from toolcrib.toolkits.memory.files import MemoryEntry, MemoryFiles, Names
from toolcrib.toolkits.memory.types import MemoryConfig, MemoryParams, MemoryResult
from toolcrib.tools.result import ToolResult
from toolcrib.vfs import VfsPath

MOST_LINES: Final = 999_999
_WIDTH: Final = len(str(MOST_LINES))
_UNITS: Final = ("B", "K", "M", "G")


def directory(path: str, size: int, entries: Iterable[MemoryEntry]) -> str:
    """Return the listing of a directory, with sizes."""
    head = f"Here're the files and directories up to 2 levels deep in {path}, "
    lines = [f"{head}excluding hidden items:", f"{_human(size)}\t{path}"]
    lines += [
        f"{_human(entry.size)}\t{path}/{entry.name}{'/' if entry.is_directory else ''}"
        for entry in entries
    ]
    return "\n".join(lines)


def numbered(lines: Sequence[str], first: int) -> str:
    """Return the lines with their numbers."""
    return "\n".join(
        f"{str(number).rjust(_WIDTH)}\t{line}" for number, line in enumerate(lines, start=first)
    )


def around(text: str, index: int) -> str:
    """Return a few lines around the line at `index`."""
    lines = text.split("\n")
    first = max(0, index - 2)
    return numbered(lines[first : index + 3], first + 1)


def _human(size: int) -> str:
    power = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    amount = size / 1024**power
    return f"{amount:.0f}{_UNITS[power]}" if amount.is_integer() else f"{amount:.1f}{_UNITS[power]}"


ROOT: Final = "memories"
"""The name of the root in the paths that the model writes."""
_MOST_PLACES: Final = 100
_LINKS: Final = frozenset({errno.ELOOP, errno.ENOTDIR})
_FULL: Final = frozenset({errno.EDQUOT, errno.EFBIG, errno.ENOSPC})


class MemoryHandler:
    """The handler of the tool. A command that cannot be carried out is a failed result and changes
    nothing.
    """

    def __init__(self, config: MemoryConfig) -> None:
        self._files = MemoryFiles(config)

    def __call__(self, params: MemoryParams) -> ToolResult[MemoryResult]:
        """Carry out the command."""
        try:
            text = self._run(params)
        except UsageError as error:
            return ToolResult(message=str(error), success=False)
        except OSError as error:
            return ToolResult(message=_explain(error, params), success=False)
        return ToolResult(value=MemoryResult(params.command, text))

    def _run(self, params: MemoryParams) -> str:
        match params.command:
            case "view":
                return self._view(_text(params, "path"), params.view_range)
            case "create":
                return self._create(_text(params, "path"), _text(params, "file_text"))
            case "str_replace":
                old, new = _text(params, "old_str"), params.new_str or ""
                return self._replace(_text(params, "path"), old, new)
            case "insert":
                return self._insert(
                    _text(params, "path"), params.insert_line, _text(params, "insert_text")
                )
            case "delete":
                return self._delete(_text(params, "path"))
            case "rename":
                return self._rename(_text(params, "old_path"), _text(params, "new_path"))
            case _:
                assert_never(params.command)

    def _view(self, path: str, wanted: list[int] | None) -> str:
        names = _names(path)
        if self._files.is_directory(names):
            size, entries = self._files.size(names), self._files.entries(names, depth=2)
            return directory(path.rstrip("/"), size, entries)
        lines = self._text_of(names, path).split("\n")
        if len(lines) > MOST_LINES:
            raise UsageError(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first, last = _range(wanted, len(lines))
        text = numbered(lines[first - 1 : last], first)
        return f"Here's the content of {path} with line numbers:\n{text}"

    def _create(self, path: str, text: str) -> str:
        names = _inside(path, "create")
        self._files.create(names, _encoded(text))
        return f"File created successfully at: {path}"

    def _replace(self, path: str, old: str, new: str) -> str:
        names = self._file(path)
        text = self._text_of(names, path)
        count = text.count(old) if old else 0
        if count == 0:
            raise UsageError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            )
        if count > 1:
            raise UsageError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{_places(text, old)}. Please ensure it is unique"
            )
        changed = text.replace(old, new)
        self._files.replace(names, text.encode(), _encoded(changed))
        snippet = around(changed, text[: text.find(old)].count("\n"))
        return (
            "The memory file has been edited. Here is the snippet showing the change "
            f"(with line numbers):\n{snippet}"
        )

    def _insert(self, path: str, line: int | None, added: str) -> str:
        names = self._file(path)
        text = self._text_of(names, path)
        lines = text.removesuffix("\n").split("\n") if text else []
        if line is None or not 0 <= line <= len(lines):
            raise UsageError(
                f"Invalid `insert_line` parameter: {line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(line, added.rstrip("\n"))
        changed = "\n".join(lines)
        changed += "" if changed.endswith("\n") else "\n"
        self._files.replace(names, text.encode(), _encoded(changed))
        return f"The file {path} has been edited."

    def _delete(self, path: str) -> str:
        self._files.delete(_inside(path, "delete"))
        return f"Successfully deleted {path}"

    def _rename(self, old: str, new: str) -> str:
        self._files.rename(_inside(old, "rename"), _inside(new, "rename"))
        return f"Successfully renamed {old} to {new}"

    def _file(self, path: str) -> Names:
        names = _names(path)
        if self._files.is_directory(names):
            raise UsageError(f"The path {path} is not a file.")
        return names

    def _text_of(self, names: Names, path: str) -> str:
        try:
            return self._files.read(names).decode()
        except UnicodeDecodeError:
            raise UsageError(f"The file {path} is not text in UTF-8.") from None


def _text(params: MemoryParams, field: str) -> str:
    value: str | None = getattr(params, field)
    if value is None:
        raise UsageError(f"The command {params.command} needs `{field}`.")
    return value


def _names(path: str) -> Names:
    try:
        first, *names = VfsPath.parse(path.rstrip("/")).segments or ("",)
    except UsageError as error:
        raise UsageError(f"Path {path} is not a path inside /{ROOT}: {error}") from None
    if not path.startswith("/") or first != ROOT:
        raise UsageError(f"Path must start with /{ROOT}, got: {path}")
    return tuple(names)


def _inside(path: str, command: str) -> Names:
    names = _names(path)
    if not names:
        raise UsageError(f"Cannot {command} the /{ROOT} directory itself")
    return names


def _range(wanted: list[int] | None, length: int) -> tuple[int, int]:
    if wanted is None:
        return 1, length
    if len(wanted) != 2:
        raise UsageError(
            f"Invalid `view_range` parameter: {wanted}. It should be the first and the last line."
        )
    first, last = wanted
    return max(1, first), length if last == -1 else max(0, last)


def _places(text: str, old: str) -> str:
    """Return the numbers of the lines where a text occurs, up to a limit."""
    lines: list[str] = []
    at, line = text.find(old), 1
    seen = 0
    while at != -1 and len(lines) < _MOST_PLACES:
        line += text.count("\n", seen, at)
        lines.append(str(line))
        seen, at = at, text.find(old, at + 1)
    return ", ".join([*lines, *(["..."] if at != -1 else [])])


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError("The text has characters that cannot be written as UTF-8.") from None


def _explain(error: OSError, params: MemoryParams) -> str:
    path = params.old_path if params.command == "rename" else params.path
    number = error.errno
    if isinstance(error, FileNotFoundError):
        hint = " Please provide a valid path." if params.command not in ("delete", "rename") else ""
        return f"The path {path} does not exist" + (f".{hint}" if hint else "")
    if isinstance(error, FileExistsError):
        is_rename = params.command == "rename"
        what = f"The destination {params.new_path}" if is_rename else f"File {path}"
        return f"{what} already exists"
    if number in _LINKS:
        either = " or ".join(filter(None, (path, params.new_path)))
        return f"The path {either} leads through a symbolic link or something that is no directory."
    if number in _FULL:
        return f"Nothing was changed, there is no room for it: {error.strerror}."
    return f"The path {path} cannot be used: {error.strerror or type(error).__name__}."
