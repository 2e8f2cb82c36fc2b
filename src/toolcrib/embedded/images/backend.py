"""The image backend protocol: requests for images, and the images that a backend makes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

ImageFormat: TypeAlias = Literal["png", "webp", "jpeg", "gif", "svg"]


@dataclass(frozen=True, slots=True)
class ImageSize:
    """The width and the height of an image, in pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


@dataclass(frozen=True, slots=True)
class DrawRequest:
    """One request to an image backend. Without a size or a format, the backend chooses.

    `partial_images` is how many images the caller wants to see while the last one is being made.
    """

    prompt: str
    size: ImageSize | None = None
    format: ImageFormat | None = None
    is_transparent: bool = False
    partial_images: int = 0


@dataclass(frozen=True, slots=True)
class UnfinishedImage:
    """An image that is not finished."""

    data: bytes


@dataclass(frozen=True, slots=True)
class FinishedImage:
    """The finished image. `revised_prompt` says what was drawn."""

    data: bytes
    format: ImageFormat
    size: ImageSize
    revised_prompt: str


ImageOutput: TypeAlias = UnfinishedImage | FinishedImage


class ImageBackend(Protocol):
    """Makes the images of the tool `image_generation`."""

    @property
    def about(self) -> str:
        """What it draws and how a prompt has to be written, for the model that calls it."""
        ...

    @property
    def formats(self) -> Sequence[ImageFormat]:
        """The formats that it can write, the default first."""
        ...

    def draw(self, request: DrawRequest) -> AsyncIterator[ImageOutput]:
        """Make one image: partial ones, then the finished one. Raises `BackendFailed`."""
        ...
