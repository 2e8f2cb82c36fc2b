"""Options of a search of X. Its results are those of a web search."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import check_flag, check_names

MOST_HANDLES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class XSearchConfig:
    """Whose posts to search, of which time, and whether to look at images and videos in them."""

    kind: ClassVar[str] = "x_search"
    allowed_handles: tuple[str, ...] = ()
    excluded_handles: tuple[str, ...] = ()
    from_date: datetime | None = None
    """Without a time zone it is UTC, like `to_date`."""
    to_date: datetime | None = None
    reads_images: bool = False
    reads_videos: bool = False

    def __post_init__(self) -> None:
        for name in ("allowed_handles", "excluded_handles"):
            handles: tuple[str, ...] = getattr(self, name)
            check_names(f"XSearchConfig.{name}", handles)
            if len(handles) > MOST_HANDLES:
                raise InvalidTool(
                    f"XSearchConfig.{name} has {len(handles)} handles; at most {MOST_HANDLES}"
                )
        if self.allowed_handles and self.excluded_handles:
            raise InvalidTool("XSearchConfig takes allowed_handles or excluded_handles, not both")
        for name in ("from_date", "to_date"):
            if not isinstance(getattr(self, name), datetime | None):
                raise InvalidTool(f"XSearchConfig.{name} must be a datetime or None")
        check_flag("XSearchConfig.reads_images", self.reads_images)
        check_flag("XSearchConfig.reads_videos", self.reads_videos)
