"""What goes to the model besides the prompt's text: more text, images, files."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass, field
from pathlib import Path

from toolcrib.errors import InvalidPrompt


@dataclass(frozen=True, slots=True)
class TextAttachment:
    """A text that is not part of the instructions, such as a document to work on."""

    text: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class FileAttachment:
    """A file or an image, by exactly one of: its path, its bytes, the id the provider gave it.

    What it is follows from `media_type`, or from the name; images are sent as images.
    """

    path: Path | None = None
    data: bytes | None = field(default=None, repr=False)
    file_id: str | None = None
    name: str | None = None
    media_type: str | None = None

    def __post_init__(self) -> None:
        given = [part for part in (self.path, self.data, self.file_id) if part is not None]
        if len(given) != 1:
            raise InvalidPrompt("an attachment is given by exactly one of path, data and file_id")
        if self.data is not None and not (self.name or self.media_type):
            raise InvalidPrompt("attached bytes need a name or a media_type")
        if self.file_id is not None and not self.file_id.strip():
            raise InvalidPrompt("file_id is empty")

    @property
    def file_name(self) -> str:
        """The name to send: given, or the path's."""
        return self.name or (self.path.name if self.path else "") or "attachment"

    @property
    def kind(self) -> str:
        """The media type: given, or guessed from the name."""
        guessed, _ = mimetypes.guess_type(self.file_name)
        return self.media_type or guessed or "application/octet-stream"

    @property
    def is_image(self) -> bool:
        """Whether the provider should look at it as an image."""
        return self.kind.startswith("image/")

    def read(self, max_bytes: int) -> bytes:
        """The bytes, unless they are more than `max_bytes` or lie with the provider."""
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
        try:
            with path.open("rb") as file:
                return file.read(max_bytes + 1)
        except OSError as error:
            raise InvalidPrompt(f"cannot attach {path}: {error.strerror}") from error


Attachment = TextAttachment | FileAttachment
