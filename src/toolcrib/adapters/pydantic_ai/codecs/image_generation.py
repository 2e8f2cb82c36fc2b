"""Image generation through pydantic-ai."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast, get_args

from toolcrib.adapters.codec import Invocation, RawItem
from toolcrib.adapters.items import maybe_text, text_of
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
    "aspect_ratio",
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
    """The codec of `image_generation`. An image is an item of its own with the call's id. Gemini
    sends no calls: each of its images counts as one.
    """

    kind = KIND
    native = "image_generation"
    params_type: ClassVar[type[Any] | None] = ImageRequest
    result_type: ClassVar[type[Any] | None] = GeneratedImage

    def fields(self, config: ImageGenerationConfig) -> dict[str, Any]:
        if self.provider in _GEMINI and config.output_compression is not None:
            _check_compressed(self.provider, config.output_format)
        fields = {name: getattr(config, name) for name in _FIELDS}
        # One field has both ways to say how large an image is.
        fields["size"] = config.size or config.resolution
        return {name: value for name, value in fields.items() if value is not None}

    def is_call(self, item: RawItem, tool: HostedTool[ImageGenerationConfig]) -> bool:
        # The stand-in for an undeclared tool has another config.
        is_declared = isinstance(cast("object", tool.config), ImageGenerationConfig)
        if self.provider in _GEMINI and is_declared and is_image(item):
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
        image = _image_result(call, items)
        failure = image.error.message if image.error else None
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=ImageRequest(maybe_text(call.facts, "revised_prompt")),
            value=image,
            message=failure or image.render(),
            success=failure is None,
            error=failure,
            raw=call.call_item if is_image(call.call_item) else call.raw,
        )

    def combine(
        self,
        values: Sequence[GeneratedImage],
        items: Sequence[RawItem],
        tool: HostedTool[ImageGenerationConfig],
    ) -> ImageGenerationResult | None:
        return ImageGenerationResult.of(values)


def _check_compressed(provider: str, output_format: str | None) -> None:
    if output_format not in (None, "jpeg"):
        why = f"only jpeg is compressed, not {output_format}; leave one of them out"
        raise UnsupportedOption(KIND, "output_compression", provider, why)


def _image_result(call: HostedCall, items: Sequence[RawItem]) -> GeneratedImage:
    """The image of a call, or why there is none."""
    if is_image(call.call_item):
        return _image(call.call_item, {})
    failure = call.failure
    images = images_of(call, items)
    if failure is None and images:
        return _image(images[0], call.facts)
    status = text_of(call.facts, "status")
    message = ": ".join(filter(None, (f"{KIND} has no image", status)))
    error = ImageError(failure or message, code=status or None)
    status = call.status if failure else status or "failed"
    prompt = maybe_text(call.facts, "revised_prompt")
    return GeneratedImage("", prompt=prompt, status=status, error=error)


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
