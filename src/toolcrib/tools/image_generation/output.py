"""What image generation gives back, whoever ran it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """What one call was asked to draw, in the provider's own last wording where it tells."""

    prompt: str | None = None
    action: str | None = None


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """An image, as the base64 text it came in."""

    base64: str = field(repr=False)
    format: str | None = None
    """`png`, `webp`, `jpeg`, `gif` or `svg`; None when nobody knows."""
    size: str | None = None
    quality: str | None = None
    background: str | None = None
    prompt: str | None = None

    @property
    def data(self) -> bytes:
        """The image itself. Raises ValueError when the provider's text is not base64."""
        return base64.b64decode(self.base64, validate=True)

    def render(self) -> str:
        """One line about the image; the image is not text."""
        facts = ", ".join(filter(None, (self.format, self.size)))
        about = f": {self.prompt}" if self.prompt else ""
        return f"an image ({facts or 'of unknown format'}){about}"


@dataclass(frozen=True, slots=True)
class ImageError:
    """Why there is no image."""

    message: str
    code: str | None = None
    type: str | None = None
    param: str | None = None


@dataclass(frozen=True, slots=True)
class ImageGenerationResult:
    """The images of all calls, in order, and why others are missing."""

    images: tuple[GeneratedImage, ...] = ()
    errors: tuple[ImageError, ...] = ()

    def render(self) -> str:
        """One line for each."""
        lines = [image.render() for image in self.images]
        return "\n".join([*lines, *(error.message for error in self.errors)])
