"""File names chosen by others, made safe to write on every system."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LONGEST_NAME: Final = 200
"""In bytes: within the limit of file systems, with room for a number."""
_LONGEST_SUFFIX: Final = 20

_SEPARATORS: Final = re.compile(r"[/\\]")
_RESERVED_CHARACTERS: Final = re.compile(r'[<>:"|?*]')
# Devices, on some systems, whatever extension follows them.
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])", re.I)


def safe_name(name: str, fallback: str = "file") -> str:
    """Return the last part of a name in a form that is safe on every system.

    It has no separator, no control or invisible character, is neither hidden nor a device, and has
    at most `LONGEST_NAME` bytes. If nothing is left, `fallback` is used.
    """
    clean = _clean(name) or _clean(fallback) or "file"
    stem, suffix = split_suffix(clean)
    clean = _cut(stem, LONGEST_NAME - len(suffix.encode()) - 1).rstrip(" .") + suffix
    return f"_{clean}" if _DEVICES.fullmatch(clean.partition(".")[0].rstrip()) else clean


def numbered(name: str, number: int) -> str:
    """Return a numbered variant: `plot.png` becomes `plot-1.png`. Number 0 is the name itself."""
    if number == 0:
        return name
    stem, suffix = split_suffix(name)
    return f"{stem}-{number}{suffix}"


def split_suffix(name: str) -> tuple[str, str]:
    """Return a name without its extension, and the extension with its dot. A very long extension
    counts as part of the name.
    """
    stem, dot, suffix = name.rpartition(".")
    if not stem or not suffix or len(suffix.encode()) > _LONGEST_SUFFIX:
        return name, ""
    return stem, dot + suffix


def _clean(name: str) -> str:
    text = unicodedata.normalize("NFC", _SEPARATORS.split(name)[-1])
    visible = "".join(character for character in text if not _is_invisible(character))
    # A dot in front would hide the file, a dash would make an option of it.
    return _RESERVED_CHARACTERS.sub("_", visible).strip(" .").lstrip("-~ .")


def _is_invisible(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "C" or (category[0] == "Z" and character != " ")


def _cut(text: str, size: int) -> str:
    return text.encode()[:size].decode(errors="ignore")
