"""What an operation of a web API is: where each argument goes, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Location: TypeAlias = Literal["path", "query", "header", "cookie"]
LOCATIONS: Final[tuple[Location, ...]] = ("path", "query", "header", "cookie")

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
SAFE_METHODS: Final = frozenset({"get", "head", "options", "trace"})
"""Methods that by the rules of HTTP change nothing."""

BODY: Final = "body"
"""The name of the argument that holds the body of a request."""


@dataclass(frozen=True, slots=True)
class ApiParameter:
    """One parameter: `argument` is its name among the arguments of the tool."""

    argument: str
    name: str
    location: Location
    style: str
    explode: bool
    is_required: bool
    schema: Mapping[str, Any] = field(hash=False)
    is_json: bool = False
    """Whether its value is sent as JSON."""


@dataclass(frozen=True, slots=True)
class ApiBody:
    """The body of a request. `binary` are the fields of a form that are files."""

    media_type: str
    is_required: bool
    schema: Mapping[str, Any] = field(hash=False)
    binary: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SecurityScheme:
    """How a credential is sent: as a header, in the query, or as a cookie."""

    name: str
    kind: Literal["api_key", "basic", "bearer"]
    location: Location = "header"
    parameter: str = "Authorization"


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One operation, complete and without references."""

    id: str
    method: str
    path: str
    description: str
    parameters: tuple[ApiParameter, ...] = ()
    body: ApiBody | None = None
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    output_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    security: tuple[tuple[SecurityScheme, ...], ...] = ((),)
    """The sets of credentials that each suffice. An empty set needs none."""
    is_deprecated: bool = False

    @property
    def is_safe(self) -> bool:
        """Whether it changes nothing, by its method."""
        return self.method in SAFE_METHODS
