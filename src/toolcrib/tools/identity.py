"""The identity of a tool, which events, approvals and grants refer to, and its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolcrib.errors import UsageError

Place = Literal["local", "sandbox", "client", "provider"]
"""Where a call runs: this process, a sandbox, the connected client, the model's provider."""


@dataclass(frozen=True, slots=True)
class ToolRef:
    """A tool at one version. Its identity is `source` + `name`; `digest` covers its declaration."""

    name: str
    source: str
    version: str
    digest: str
    place: Place

    @property
    def id(self) -> str:
        """`source/name`, which policies and grants use, so that a tool of the same name is not
        covered.
        """
        return f"{self.source}/{self.name}"


def canonical_json(value: Any) -> bytes:
    """Encode `value` as JSON in one exact form: sorted keys, no spaces, UTF-8.

    Accepts what pydantic accepts (dataclasses, datetimes, enums). Raises `UsageError` for a value
    that JSON cannot express.
    """
    from pydantic_core import PydanticSerializationError, from_json, to_json

    try:
        # Through JSON and back: keys become text before they are sorted.
        plain = from_json(to_json(value, inf_nan_mode="constants"), cache_strings="keys")
        text = json.dumps(
            plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
    except (PydanticSerializationError, ValueError) as error:
        raise UsageError(f"this value cannot be written as JSON: {error}") from error
    return text.encode("utf-8")


def tool_digest(name: str, description: str, schema: Mapping[str, Any]) -> str:
    """Return the SHA-256 of name, description and argument schema, in hex.

    An approval or a grant for one digest does not cover another.
    """
    return hashlib.sha256(canonical_json([name, description, schema])).hexdigest()
