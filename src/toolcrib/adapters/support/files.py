"""File search and image generation: where they are, and what can be asked of them there."""

from __future__ import annotations

from typing import Final

from toolcrib.adapters.support.cell import Cell, Kind
from toolcrib.adapters.support.rows import (
    BEFORE_GEMINI_3,
    GEMINI,
    LOCAL,
    OPENAI_ENDS,
    OWN_ADAPTER,
    cells,
    where,
)

_NO_RANKING: Final = {
    "openai-responses": OWN_ADAPTER,
    "google xai": "it ranks by itself; leave ranking out",
}

FILE_SEARCH: Final = Kind(
    where(
        "openai openai-responses",
        {"google": BEFORE_GEMINI_3, "xai": "the stores are collections"},
        no={
            "anthropic": f"Anthropic has no file search; {LOCAL}",
            "google-vertex": "file search stores are on the Gemini API only; use google",
        },
        other=f"pydantic-ai offers no file search there; {LOCAL}",
    ),
    {
        "vector_store_ids": cells(
            "openai openai-responses google", limited={"xai": Cell(True, most=10)}
        ),
        "max_results": cells(
            "xai",
            limited={"openai": Cell(True, most=50)},
            no={
                "openai-responses": OWN_ADAPTER,
                "google": "pydantic-ai does not send it; leave it out",
            },
        ),
        "filters": cells(
            "openai",
            no={
                "openai-responses": OWN_ADAPTER,
                "google xai": "pydantic-ai cannot filter files there; keep apart what must be apart"
                " in stores of their own",
            },
        ),
        "ranking.ranker": cells(
            limited={"openai": Cell(True, only=("auto", "default-2024-11-15"))}, no=_NO_RANKING
        ),
        "ranking.score_threshold": cells("openai", no=_NO_RANKING),
        "ranking.hybrid": cells("openai", no=_NO_RANKING),
    },
)

_BY_MODEL: Final = "Gemini draws as it sees fit; say it in the prompt"
_FORMATS: Final = Cell(True, only=("png", "webp", "jpeg"))
_SIZES: Final = Cell(True, only=("auto", "1024x1024", "1024x1536", "1536x1024"))
_DRAWN: Final = cells(OPENAI_ENDS, no={GEMINI: _BY_MODEL})
_ONLY_OWN: Final = cells("openai", no={"openai-responses": OWN_ADAPTER, GEMINI: _BY_MODEL})

IMAGE_GENERATION: Final = Kind(
    where(
        "openai openai-responses",
        {GEMINI: "only models with image in their name"},
        no={"anthropic": f"Anthropic draws no images; {LOCAL}"},
        other=f"pydantic-ai offers no image generation there; {LOCAL}",
    ),
    {
        "action": _DRAWN,
        "model": _DRAWN,
        "size": cells(
            "openai",
            limited={"openai-responses": _SIZES},
            no={GEMINI: "Gemini counts in 1K, 2K and 4K, not in pixels; leave it out"},
        ),
        "quality": cells(
            "openai",
            limited={"openai-responses": Cell(True, only=("low", "medium", "high", "auto"))},
            no={GEMINI: _BY_MODEL},
        ),
        "complexity": _ONLY_OWN,
        "background": _DRAWN,
        "output_format": cells(
            "openai",
            limited={
                "openai-responses": _FORMATS,
                "google-vertex": Cell(True, only=("png", "jpeg")),
            },
            no={"google": "only Vertex can be told; leave it out"},
        ),
        "output_compression": cells(
            f"{OPENAI_ENDS} google-vertex", no={"google": "only Vertex can be told; leave it out"}
        ),
        "input_fidelity": _DRAWN,
        "mask": _ONLY_OWN,
        "moderation": _DRAWN,
        "partial_images": _DRAWN,
        "frame_count": _ONLY_OWN,
        "frame_duration_ms": _ONLY_OWN,
        "svg": _ONLY_OWN,
    },
)
