"""X search through pydantic-ai: read like a web search."""

from __future__ import annotations

from typing import Any

from toolcrib.adapters.pydantic_ai.codecs.web_search import WebSearchCodec
from toolcrib.tools.x_search import KIND, XSearchConfig


class XSearchCodec(WebSearchCodec):
    """The codec of `x_search`. Text and citations belong to all calls together."""

    kind = KIND
    native = "x_search"

    def fields(self, config: Any) -> dict[str, Any]:
        options: XSearchConfig = config
        fields = {
            "allowed_x_handles": list(options.allowed_handles) or None,
            "excluded_x_handles": list(options.excluded_handles) or None,
            "from_date": options.from_date and options.from_date.isoformat(),
            "to_date": options.to_date and options.to_date.isoformat(),
            "enable_image_understanding": options.reads_images or None,
            "enable_video_understanding": options.reads_videos or None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def settings(self, config: Any) -> dict[str, Any]:
        return {"xai_include_x_search_output": True, "xai_include_inline_citations": True}
