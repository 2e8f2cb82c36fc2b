"""A provider-run tool with options, described in words that no provider owns."""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from toolcrib.errors import InvalidTool
from toolcrib.tools.fallback import AnyFallback, check_fallback
from toolcrib.tools.native import NativeTool

LONGEST_DESCRIPTION = 200


@runtime_checkable
class HostedToolConfig(Protocol):
    """Marks a type as the options of a hosted tool; any frozen dataclass is one."""


@runtime_checkable
class HostedToolOutput(Protocol):
    """Marks a type as what a hosted tool's answer is parsed into."""


C = TypeVar("C", bound=HostedToolConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedTool(NativeTool[None, Any], Generic[C]):
    """A capability that adapters map to their provider by `kind`.

    It has no params and no handler: the provider runs it, and the adapter's codec parses what
    comes back. `fallback` names a local tool to offer instead where the provider cannot do it;
    without one, that is an error.
    """

    _type_fields: ClassVar[tuple[str, ...]] = ()

    kind: str
    config: C = field(hash=False)
    fallback: AnyFallback[C] = field(default=None, hash=False)

    def __post_init__(self) -> None:
        super(HostedTool, self).__post_init__()
        self._check_kind()
        check_frozen_config(self.name, self.config)
        check_fallback(self.name, self.fallback)
        if not self.description.isascii() or len(self.description) > LONGEST_DESCRIPTION:
            raise InvalidTool(
                f"tool {self.name!r}: a hosted tool's description must be 1 to "
                f"{LONGEST_DESCRIPTION} ASCII characters; this one has {len(self.description)}"
            )

    def _check_kind(self) -> None:
        if not isinstance(self.kind, str) or not self.kind.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"tool {self.name!r}: kind must name a capability, like 'web_search'; "
                f"it is {self.kind!r}"
            )

    def _check_types(self) -> None:
        if self.params_type is not None:
            raise InvalidTool(
                f"tool {self.name!r}: a hosted tool takes no params; put its options in config"
            )


def check_frozen_config(name: str, config: object) -> None:
    """Refuse options that are not a frozen dataclass instance: they could change after the check.

    The marker protocol is empty, so being an instance of it says nothing.
    """
    is_instance = is_dataclass(config) and not isinstance(config, type)
    if is_instance and type(config).__dataclass_params__.frozen:  # pyright: ignore
        return
    raise InvalidTool(
        f"tool {name!r}: config must be an instance of a frozen dataclass, "
        f"not {type(config).__name__}; declare it with @dataclass(frozen=True, slots=True)"
    )
