"""What a section is made from, as keywords with types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict

from typing_extensions import TypeVar

from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.prompt.section import Section

P = TypeVar("P", default=None)
Visibility = Literal["full", "summary"]


class _Shared(TypedDict, Generic[P], total=False):
    children: Sequence[Section[Any]]
    enabled: Callable[[P], bool] | None
    visibility: Visibility
    summary: str | None
    accepts_overrides: bool


class SectionOptions(_Shared[P], Generic[P], total=False):
    """What a section takes besides its title, its key and its text."""

    tools: Sequence[object]
    hosted_tools: Sequence[Tool[Any, Any]]
    params_type: type[P] | None


class SectionChanges(_Shared[P], Generic[P], total=False):
    """What can be different in the clone of a section."""

    title: str
    key: str
