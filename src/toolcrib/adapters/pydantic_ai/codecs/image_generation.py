"""Image generation through pydantic-ai."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast, get_args

from toolcrib.adapters.codec import Invocation, RawItem
from toolcrib.adapters.json_fields import maybe_text, plain, text_of
from toolcrib.adapters.pydantic_ai.codecs.files import base64_of, images_of, is_image, media_type
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.image_generation import (
    KIND,
    GeneratedImage,
    ImageError,
    ImageFormat,
    ImageGenerationConfig,
    ImageGenerationResult,
    ImageRequest,
)
from toolcrib.tools.provider_tools import HostedTool

_FIELDS: Final = (
    "action",
    "background",
    "input_fidelity",
    "model",
    "moderation",
    "output_compression",
    "output_format",
    "partial_images",
    "quality",
    "size",
)
_GEMINI: Final = frozenset({"google", "google-vertex"})


class ImageGenerationCodec(NativeCodec[ImageGenerationConfig, ImageGenerationResult]):
    """Speaks for `image_generation`. An image is an item of its own, under the call's id; Gemini
    makes no call, so there each image is one.
    """

    kind = KIND
    native = "image_generation"
    params_type: ClassVar[type[Any] | None] = ImageRequest
    result_type: ClassVar[type[Any] | None] = GeneratedImage

    def fields(self, config: ImageGenerationConfig) -> dict[str, Any]:
        if self.provider in _GEMINI and config.output_compression is not None:
            _check_compressed(self.provider, config.output_format)
        found = {name: getattr(config, name) for name in _FIELDS}
        return {name: value for name, value in found.items() if value is not None}

    def is_call(self, item: RawItem, tool: HostedTool[ImageGenerationConfig]) -> bool:
        # A stand-in for a tool that nobody offered has another config.
        is_offered = isinstance(cast("object", tool.config), ImageGenerationConfig)
        if self.provider in _GEMINI and is_offered and is_image(item):
            return True
        return super().is_call(item, tool)

    def hosted_calls(
        self, items: Sequence[RawItem], tool: HostedTool[ImageGenerationConfig]
    ) -> list[HostedCall]:
        drawn = [
            HostedCall(item, item) for item in items if is_image(item) and self.is_call(item, tool)
        ]
        return [*super().hosted_calls(items, tool), *drawn]

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[ImageGenerationConfig]
    ) -> Invocation:
        if is_image(item):
            return self.read(HostedCall(item, item), items, tool)
        return super().invocation(item, items, tool)

    def read(
        self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[ImageGenerationConfig]
    ) -> Invocation:
        found = _drawn(call, items)
        image = found if isinstance(found, GeneratedImage) else None
        failure = found.message if isinstance(found, ImageError) else None
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=ImageRequest(maybe_text(call.facts, "revised_prompt")),
            value=image,
            message=failure or (image.render() if image else ""),
            success=failure is None,
            error=failure,
            raw=call.call_item if is_image(call.call_item) else call.raw,
        )

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[ImageGenerationConfig]
    ) -> ImageGenerationResult | None:
        items = [plain(each) for each in response_items]
        found = [_drawn(each, items) for each in self.hosted_calls(items, tool)]
        if not found:
            return None
        return ImageGenerationResult(
            images=tuple(each for each in found if isinstance(each, GeneratedImage)),
            errors=tuple(each for each in found if isinstance(each, ImageError)),
        )


def _check_compressed(provider: str, output_format: str | None) -> None:
    if output_format not in (None, "jpeg"):
        why = f"only jpeg is compressed, not {output_format}; leave one of them out"
        raise UnsupportedOption(KIND, "output_compression", provider, why)


def _drawn(call: HostedCall, items: Sequence[RawItem]) -> GeneratedImage | ImageError:
    """The image of a call, or why there is none."""
    if is_image(call.call_item):
        return _image(call.call_item, {})
    failure = call.failure
    images = images_of(call, items)
    if failure is None and images:
        return _image(images[0], call.facts)
    status = text_of(call.facts, "status")
    about = ": ".join(filter(None, (f"{KIND} has no image", status)))
    return ImageError(failure or about, code=status or None)


def _image(item: RawItem, facts: RawItem) -> GeneratedImage:
    return GeneratedImage(
        base64=base64_of(item),
        format=_format(item),
        size=maybe_text(facts, "size"),
        quality=maybe_text(facts, "quality"),
        background=maybe_text(facts, "background"),
        prompt=maybe_text(facts, "revised_prompt"),
    )


def _format(item: RawItem) -> str | None:
    name = media_type(item).removeprefix("image/").partition("+")[0]
    return name if name in get_args(ImageFormat) else None
