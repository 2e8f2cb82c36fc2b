"""Options, params and results of image generation, in words that no provider owns."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import check_choice, check_count, check_text
from toolcrib.tools.result import NamedFields
from toolcrib.tools.stored_text import whole_text

Action: TypeAlias = Literal["generate", "edit", "auto"]
Background: TypeAlias = Literal["transparent", "opaque", "auto"]
Complexity: TypeAlias = Literal["low", "medium", "high"]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Fidelity: TypeAlias = Literal["high", "low"]
ImageFormat: TypeAlias = Literal["png", "webp", "jpeg", "gif", "svg"]
Moderation: TypeAlias = Literal["auto", "low"]
AspectRatio: TypeAlias = Literal[
    "21:9", "16:9", "4:3", "3:2", "1:1", "9:16", "3:4", "2:3", "5:4", "4:5"
]
Resolution: TypeAlias = Literal["512", "1K", "2K", "4K"]
Quality: TypeAlias = Literal["low", "medium", "high", "xhigh", "max", "auto"]

_SIZE = re.compile(r"auto|[1-9][0-9]{0,4}x[1-9][0-9]{0,4}")
_LONGEST_MS = 600_000


@dataclass(frozen=True, slots=True)
class ImageMask:
    """The part of an image that may change: an uploaded file or an image as a `data:` URL."""

    file_id: str | None = None
    image_url: str | None = None

    def __post_init__(self) -> None:
        check_text("ImageMask.file_id", self.file_id)
        check_text("ImageMask.image_url", self.image_url)
        if self.file_id is None and self.image_url is None:
            raise InvalidTool("ImageMask needs a file_id or an image_url")


@dataclass(frozen=True, slots=True)
class SvgAuthor:
    """The model that writes an SVG, and its reasoning effort."""

    model: str | None = None
    effort: Effort | None = None

    def __post_init__(self) -> None:
        check_text("SvgAuthor.model", self.model)
        check_choice("SvgAuthor.effort", self.effort, get_args(Effort))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGenerationConfig:
    """The options of image generation. `None` takes the provider's default; which model supports
    which option is up to the provider.
    """

    kind: ClassVar[str] = "image_generation"
    action: Action | None = None
    model: str | None = None
    size: str | None = None
    """`auto`, or width and height in pixels: `1536x1024`."""
    resolution: Resolution | None = None
    """How large, for providers that count in steps and not in pixels."""
    aspect_ratio: AspectRatio | None = None
    """Width to height, in place of a `size`."""
    quality: Quality | None = None
    complexity: Complexity | None = None
    """How much to plan before drawing."""
    background: Background | None = None
    output_format: ImageFormat | None = None
    output_compression: int | None = None
    """From 0 to 100."""
    input_fidelity: Fidelity | None = None
    """How closely to follow the input images."""
    mask: ImageMask | None = None
    moderation: Moderation | None = None
    partial_images: int | None = None
    """How many unfinished images to stream, at most 3."""
    frame_count: int | None = None
    frame_duration_ms: int | None = None
    svg: SvgAuthor | None = None

    def __post_init__(self) -> None:
        self._check_words()
        self._check_numbers()
        _check_type("mask", self.mask, ImageMask)
        _check_type("svg", self.svg, SvgAuthor)
        self._check_format()

    def _check_words(self) -> None:
        check_choice(_option("action"), self.action, get_args(Action))
        check_choice(_option("background"), self.background, get_args(Background))
        check_choice(_option("complexity"), self.complexity, get_args(Complexity))
        check_choice(_option("input_fidelity"), self.input_fidelity, get_args(Fidelity))
        check_choice(_option("moderation"), self.moderation, get_args(Moderation))
        check_choice(_option("output_format"), self.output_format, get_args(ImageFormat))
        check_choice(_option("quality"), self.quality, get_args(Quality))
        check_choice(_option("resolution"), self.resolution, get_args(Resolution))
        check_choice(_option("aspect_ratio"), self.aspect_ratio, get_args(AspectRatio))
        check_text(_option("model"), self.model)
        check_text(_option("size"), self.size)
        if self.size is not None and not _SIZE.fullmatch(self.size):
            raise InvalidTool(f"{_option('size')} must be 'auto' or like '1536x1024'")
        if self.size is not None and (self.resolution or self.aspect_ratio):
            raise InvalidTool(
                f"{_option('size')} is in pixels; give it alone, or resolution and aspect_ratio"
            )

    def _check_numbers(self) -> None:
        check_count(_option("output_compression"), self.output_compression, 0, 100)
        check_count(_option("partial_images"), self.partial_images, 0, 3)
        check_count(_option("frame_count"), self.frame_count, 1, 1000)
        check_count(_option("frame_duration_ms"), self.frame_duration_ms, 10, _LONGEST_MS)

    def _check_format(self) -> None:
        """Refuse options that the chosen format does not support."""
        chosen = self.output_format or "png"
        if self.background == "transparent" and chosen not in ("png", "webp"):
            raise InvalidTool(f"a transparent background needs png or webp, not {chosen}")
        moving = self.frame_count, self.frame_duration_ms
        if chosen != "gif" and moving != (None, None):
            raise InvalidTool(f"frame_count and frame_duration_ms need gif, not {chosen}")
        if chosen != "svg" and self.svg is not None:
            raise InvalidTool(f"{_option('svg')} needs output_format='svg', not {chosen}")
        has_compression = self.output_compression is not None
        if chosen == "gif" and (self.partial_images or self.mask or has_compression):
            raise InvalidTool("gif takes no partial_images, no mask and no output_compression")


def _check_type(name: str, value: object, kind: type[Any]) -> None:
    if value is not None and not isinstance(value, kind):
        raise InvalidTool(f"{_option(name)} must be None or an {kind.__name__}, not {value!r}")


def _option(name: str) -> str:
    return f"ImageGenerationConfig.{name}"


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """The prompt of one call, as the provider revised it where it reports that."""

    prompt: str | None = None
    action: str | None = None


@dataclass(frozen=True, slots=True)
class ImageError:
    """Why there is no image."""

    message: str
    code: str | None = None
    type: str | None = None
    param: str | None = None


@dataclass(frozen=True, slots=True)
class GeneratedImage(NamedFields):
    """An image, as the base64 text that the provider sent; empty when there is an `error`."""

    base64: str = field(repr=False)
    format: str | None = None
    """`png`, `webp`, `jpeg`, `gif` or `svg`; `None` when unknown."""
    size: str | None = None
    quality: str | None = None
    background: str | None = None
    prompt: str | None = None
    status: str = "completed"
    """`completed`, or the provider's word for how the call ended."""
    error: ImageError | None = None

    @property
    def data(self) -> bytes:
        """The image itself, also when `base64` is a reference to it, as in an event. Raises
        ValueError when the provider's text is not base64.
        """
        return base64.b64decode(whole_text(self.base64), validate=True)

    def render(self) -> str:
        """One line about the image, or why there is none; the image is not text."""
        if self.error is not None:
            return self.error.message
        facts = ", ".join(filter(None, (self.format, self.size)))
        about = f": {self.prompt}" if self.prompt else ""
        return f"an image ({facts or 'of unknown format'}){about}"


@dataclass(frozen=True, slots=True)
class ImageGenerationResult(NamedFields):
    """The images of all calls, in order, and the errors of calls without one."""

    images: tuple[GeneratedImage, ...] = ()
    errors: tuple[ImageError, ...] = ()

    @classmethod
    def of(cls, drawn: Sequence[GeneratedImage]) -> ImageGenerationResult | None:
        """What came of these calls; `None` when there were none."""
        if not drawn:
            return None
        return cls(
            images=tuple(image for image in drawn if image.error is None),
            errors=tuple(image.error for image in drawn if image.error is not None),
        )

    def render(self) -> str:
        """One line for each."""
        lines = [image.render() for image in self.images]
        return "\n".join([*lines, *(error.message for error in self.errors)])
