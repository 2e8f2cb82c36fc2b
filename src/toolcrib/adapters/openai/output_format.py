"""A structured answer, as a request asks for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.openai.strict_output import strict_schema

if TYPE_CHECKING:
    from toolcrib.prompt.output import OutputSchema


def output_format(output: OutputSchema[Any]) -> dict[str, Any]:
    """`text.format` for a structured answer; strict where the schema allows it."""
    strict = strict_schema(output.schema)
    return {
        "type": "json_schema",
        # A name may have the brackets of a generic type, or letters of any language.
        "name": re.sub(r"[^a-zA-Z0-9_-]", "_", output.name)[:64],
        "schema": output.schema if strict is None else strict,
        "strict": strict is not None,
    }
