"""Attachments: text, images and files sent beside the text of a prompt."""

from __future__ import annotations

import mimetypes
import re
from dataclasses import dataclass, field
from pathlib import Path

from toolcrib.errors import InvalidPrompt

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class TextAttachment:
    """A text that is not part of the instructions, such as a document to work on."""

    text: str
    title: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidPrompt(f"attached text is a str, not {type(self.text).__name__}")


@dataclass(frozen=True, slots=True)
class FileAttachment:
    """A file or an image, named by exactly one of its path, its bytes, or the id the provider gave
    it.

    `media_type`, or else the name, determines the type; images are sent as images.
    """

    path: Path | None = None
    data: bytes | None = field(default=None, repr=False)
    file_id: str | None = None
    name: str | None = None
    media_type: str | None = None

    def __post_init__(self) -> None:
        sources = [part for part in (self.path, self.data, self.file_id) if part is not None]
        if len(sources) != 1:
            raise InvalidPrompt("an attachment is given by exactly one of path, data and file_id")
        _check_kind("path", self.path, Path)
        _check_kind("data", self.data, bytes)
        _check_kind("file_id", self.file_id, str)
        if self.data is not None and not (self.name or self.media_type):
            raise InvalidPrompt("attached bytes need a name or a media_type")
        if self.file_id is not None and not self.file_id.strip():
            raise InvalidPrompt("file_id is empty")
        if self.media_type is not None and not _MEDIA_TYPE.fullmatch(self.media_type):
            raise InvalidPrompt(f"media_type is written like 'image/png', not {self.media_type!r}")

    @property
    def file_name(self) -> str:
        """The name to send: `name`, or that of the path."""
        return self.name or (self.path.name if self.path else "") or "attachment"

    @property
    def kind(self) -> str:
        """The media type: `media_type`, or guessed from the name."""
        guessed, _ = mimetypes.guess_type(self.file_name)
        return self.media_type or guessed or "application/octet-stream"

    @property
    def is_image(self) -> bool:
        """Whether the provider should treat it as an image."""
        return self.kind.lower().startswith("image/")

    def check(self) -> None:
        """Refuse a path without a regular file."""
        # Also keeps out a named pipe, at which reading would wait for ever.
        if self.path is not None and not self.path.is_file():
            raise InvalidPrompt(f"cannot attach {self.path}: there is no such file")

    def read(self, max_bytes: int) -> bytes:
        """Return the bytes. Refuses more than `max_bytes`, and files stored at the provider."""
        if self.data is not None:
            data = self.data
        elif self.path is not None:
            data = self._read_path(self.path, max_bytes)
        else:
            raise InvalidPrompt(f"file {self.file_id!r} lies with the provider")
        if len(data) > max_bytes:
            raise InvalidPrompt(f"{self.file_name} has more than {max_bytes} bytes")
        return data

    def _read_path(self, path: Path, max_bytes: int) -> bytes:
        self.check()
        try:
            with path.open("rb") as file:
                return file.read(max_bytes + 1)
        except OSError as error:
            raise InvalidPrompt(f"cannot attach {path}: {error.strerror}") from error


Attachment = TextAttachment | FileAttachment


def check_attachment(attachment: object) -> None:
    """Refuse a value that is not an attachment."""
    if not isinstance(attachment, TextAttachment | FileAttachment):
        raise InvalidPrompt(
            f"{type(attachment).__name__} is no attachment; "
            "write TextAttachment(...) or FileAttachment(...)"
        )


def _check_kind(field_name: str, value: object, expected: type) -> None:
    if value is not None and not isinstance(value, expected):
        raise InvalidPrompt(
            f"{field_name} of an attachment is a {expected.__name__}, not {type(value).__name__}"
        )
