"""Where patches may be applied."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Final

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import check_count, check_names

MOST_BYTES: Final = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ApplyPatchConfig:
    """The directory that patches are confined to, and how large a file or a diff may be."""

    kind: ClassVar[str] = "apply_patch"
    root: str
    max_bytes: int = MOST_BYTES
    protected: tuple[str, ...] = (".git",)
    """Names of files and directories that no patch may touch, wherever they are."""

    def __post_init__(self) -> None:
        if not isinstance(self.root, str) or not os.path.isabs(self.root):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"ApplyPatchConfig.root must be the absolute path of a directory, not {self.root!r}"
            )
        check_count("ApplyPatchConfig.max_bytes", self.max_bytes, 1, 2**31)
        check_names("ApplyPatchConfig.protected", self.protected)
