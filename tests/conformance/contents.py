"""What the fixture gives: words, the smallest picture and sound there are, and resources."""

from __future__ import annotations

from typing import Any

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJg"
    "gg=="
)
"""A PNG of one pixel."""
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
"""A WAV of one sample."""

Block = dict[str, Any]


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def image() -> Block:
    return {"type": "image", "data": PICTURE, "mimeType": "image/png"}


def audio() -> Block:
    return {"type": "audio", "data": SOUND, "mimeType": "audio/wav"}


def resource(uri: str, words: str, mime_type: str = "text/plain") -> Block:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}
