"""Names of files that came from elsewhere."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

_LONGEST: Final = 200
"""In bytes: file systems allow 255, and names are put before some of them."""


def safe_name(filename: str) -> str:
    """The last part of a name, without what a terminal or a path would take for something else. A
    name that is too long keeps its ending.
    """
    last = PurePosixPath(filename.replace("\\", "/")).name
    shown = "".join(each if each.isprintable() else "_" for each in last).strip()
    if shown in ("", ".", ".."):
        return "file"
    stem, ending = PurePosixPath(shown).stem, PurePosixPath(shown).suffix
    if len(ending.encode()) > _LONGEST // 2:
        stem, ending = shown, ""
    return _cut(stem, _LONGEST - len(ending.encode())) + ending


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode("utf-8", "ignore")
