"""The text editor of code execution: views, creates and changes files in a container."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from difflib import unified_diff
from mimetypes import guess_type
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.containers.interpreter import WORK_AT
from toolcrib.embedded.messages.server_tool import server_error, server_result
from toolcrib.errors import ApiFault, UsageError
from toolcrib.sandbox.command import MEBIBYTE

if TYPE_CHECKING:
    from toolcrib.embedded.containers.container import Container
    from toolcrib.embedded.containers.files import ContainerFiles
    from toolcrib.embedded.messages.request import Block
    from toolcrib.sandbox.work_directory import WorkDirectory

MAX_FILE: Final = 8 * MEBIBYTE
EDITOR: Final = BackendTool(
    "text_editor_code_execution",
    "View, create or change text files below /mnt/data, the folder that shell commands run in.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": ["view", "create", "str_replace"]},
            "path": {"type": "string", "description": "A path below /mnt/data."},
            "file_text": {"type": "string", "description": "For create: the whole text."},
            "old_str": {"type": "string", "description": "For str_replace: text that occurs once."},
            "new_str": {"type": "string", "description": "For str_replace: the text instead."},
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "For view: the first and the last line, from 1; -1 is the end.",
            },
        },
        "required": ["command", "path"],
        "additionalProperties": False,
    },
)
_TYPE: Final = "text_editor_code_execution"


async def edit(files: ContainerFiles, container: Container, arguments: Mapping[str, Any]) -> Block:
    """Carry out a command; returns the result block."""
    work = files.work(container)
    try:
        content = await asyncio.to_thread(_carried_out, work, arguments)
    except ApiFault as fault:
        return server_error(_TYPE, fault.code or "unavailable", fault.message)
    return server_result(_TYPE, content)


def _carried_out(work: WorkDirectory, arguments: Mapping[str, Any]) -> Block:
    name = _name(arguments)
    match arguments.get("command"):
        case "view":
            return _view(name, _read(work, name), arguments.get("view_range"))
        case "create":
            return _create(work, name, _argument(arguments, "file_text"))
        case "str_replace":
            old, new = _argument(arguments, "old_str"), str(arguments.get("new_str") or "")
            return _replace(work, name, old, new)
        case _:
            raise _fault("invalid_tool_input", "the command is view, create or str_replace")


def _view(name: str, data: bytes, lines_range: object) -> Block:
    kind = guess_type(name)[0] or ""
    file_type = "image" if kind.startswith("image/") else "text"
    file_type = "pdf" if kind == "application/pdf" else file_type
    lines = data.decode("utf-8", "replace").splitlines()
    first, last = 1, len(lines)
    listed = cast(list[object], lines_range) if isinstance(lines_range, list) else []
    if len(listed) == 2 and all(type(number) is int for number in listed):
        start, end = cast(list[int], listed)
        first, last = max(1, start), len(lines) if end == -1 else min(end, len(lines))
    shown = lines[first - 1 : last] if file_type == "text" else []
    return {
        "type": f"{_TYPE}_view_result",
        "file_type": file_type,
        "content": "\n".join(shown),
        "num_lines": len(shown),
        "start_line": first,
        "total_lines": len(lines),
    }


def _create(work: WorkDirectory, name: str, text: str) -> Block:
    is_update = any(file.name == name for file in work.files())
    _write(work, name, text)
    return {"type": f"{_TYPE}_create_result", "is_file_update": is_update}


def _replace(work: WorkDirectory, name: str, old: str, new: str) -> Block:
    before = _read(work, name).decode("utf-8", "replace")
    count = before.count(old) if old else 0
    if count != 1:
        raise _fault("invalid_tool_input", f"old_str occurs {count} times; it must occur once")
    after = before.replace(old, new)
    _write(work, name, after)
    start = before[: before.index(old)].count("\n") + 1
    diff = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))
    lines = [line for line in diff[2:] if not line.startswith("@@")]
    return {
        "type": f"{_TYPE}_str_replace_result",
        "old_start": start,
        "old_lines": sum(line.startswith("-") for line in lines),
        "new_start": start,
        "new_lines": sum(line.startswith("+") for line in lines),
        "lines": lines,
    }


def _name(arguments: Mapping[str, Any]) -> str:
    """The path below the folder of the container."""
    path = PurePosixPath(_argument(arguments, "path"))
    whole = path if path.is_absolute() else WORK_AT / path
    if ".." in whole.parts or not whole.is_relative_to(WORK_AT) or whole == WORK_AT:
        raise _fault("invalid_tool_input", "only files below /mnt/data can be edited")
    return str(whole.relative_to(WORK_AT))


def _argument(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str):
        raise _fault("invalid_tool_input", f"{key} must be text")
    return value


def _read(work: WorkDirectory, name: str) -> bytes:
    try:
        return work.read(name, MAX_FILE)
    except (OSError, UsageError):
        raise _fault("file_not_found", f"there is no readable file {name!r}") from None


def _write(work: WorkDirectory, name: str, text: str) -> None:
    try:
        work.write(name, text.encode("utf-8", "replace"))
    except (OSError, UsageError) as error:
        raise _fault("unavailable", f"the file cannot be written: {error}") from None


def _fault(code: str, message: str) -> ApiFault:
    return ApiFault(400, message, code=code)
