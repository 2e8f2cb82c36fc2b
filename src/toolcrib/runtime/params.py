"""What every request to a runtime has in common: keys that it does not name are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """Base of what is asked."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing(Params):
    """An operation without parameters, or without an answer."""


NewSessionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
"""An id for a session that is to be made."""
Key = Annotated[str, Field(min_length=1, max_length=255)]
"""An idempotency key."""
CallId = Annotated[str, Field(min_length=1, max_length=256)]
