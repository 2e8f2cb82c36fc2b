"""Items as the adapter makes them, written by hand."""

from __future__ import annotations

from typing import Any

Item = dict[str, Any]


def call(name: str, arguments: Any = None, *, key: str = "c1", **details: Any) -> Item:
    """A call that the provider ran."""
    return {
        "type": "native_call",
        "id": key,
        "name": name,
        "provider": "p",
        "arguments": {} if arguments is None else arguments,
        "part": {"provider_details": details or None},
    }


def answer(name: str, content: Any, *, key: str = "c1", **details: Any) -> Item:
    """What came back."""
    return {
        "type": "native_return",
        "id": key,
        "name": name,
        "provider": "p",
        "content": content,
        "outcome": "success",
        "part": {"provider_details": details or None},
    }


def message(text: str, *citations: Item, **details: Any) -> Item:
    """A piece of the answer."""
    part = {"provider_details": details or None}
    return {"type": "text", "text": text, "citations": list(citations), "part": part}


def image(data: str, media_type: str = "image/png", key: str | None = None) -> Item:
    """A file that the model made."""
    content = {"data": data, "media_type": media_type, "kind": "binary"}
    return {"type": "file", "id": key, "content": content, "part": {"id": key}}


def header(**details: Any) -> Item:
    """The item of a response itself."""
    return {"type": "response", "part": {"provider_details": details}}
