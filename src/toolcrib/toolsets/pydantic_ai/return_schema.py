"""What a tool returns, as JSON Schema, for models that are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from toolcrib.tools.result import ToolResult


def return_schema(call: Callable[..., Any]) -> dict[str, Any] | None:
    """The schema of what `call` is annotated to return; None when that says nothing of use, or
    when the model does not get it as JSON.
    """
    try:
        returned = get_type_hints(call).get("return", Any)
    except NameError:
        # Its types are imported for type checking only.
        return None
    kind = get_origin(returned) or returned
    is_theirs = getattr(kind, "__module__", "").startswith("pydantic_ai")
    if kind in (Any, type(None), ToolResult) or is_theirs or hasattr(kind, "render"):
        return None
    try:
        return TypeAdapter[Any](returned).json_schema(mode="serialization")
    except PydanticUserError:
        return None
