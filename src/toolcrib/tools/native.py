"""A tool that the model's provider runs."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolcrib.errors import InvalidTool
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.tools.ref import Place

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTool(Tool[P, R], Generic[P, R]):
    """A capability of the provider, declared like any tool but without a handler.

    It adds no field to `Tool`: its name says which capability it is. Use `HostedTool` when the
    capability has options.
    """

    accepts_overrides: bool = False

    def __post_init__(self) -> None:
        # Bare super() looks for the class that slots=True has replaced.
        super(NativeTool, self).__post_init__()
        if self.handler is not None:
            raise InvalidTool(
                f"tool {self.name!r}: a provider runs this tool, so it takes no handler; "
                "declare a Tool or a ProviderTool to run code of your own"
            )
        self._check_types()

    @property
    def place(self) -> Place:
        """Always the provider."""
        return "provider"

    def _check_types(self) -> None:
        if self.params_type is not None and not _is_dataclass_type(self.params_type):
            raise InvalidTool(
                f"tool {self.name!r}: params_type must be a dataclass or None, "
                f"not {self.params_type!r}"
            )
        if not _is_dataclass_type(self.result_type):
            raise InvalidTool(
                f"tool {self.name!r}: result_type must be a dataclass, not {self.result_type!r}; "
                "keep the provider's raw payload in a field of it"
            )


def _is_dataclass_type(found: Any) -> bool:
    return isinstance(found, type) and is_dataclass(found)
