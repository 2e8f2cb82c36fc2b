"""Tools of a provider: `NativeTool`, `HostedTool` with neutral options, and `ProviderTool`, bound
to one provider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
    runtime_checkable,
)

from typing_extensions import TypeVar as DefaultTypeVar

from toolcrib.errors import InvalidTool
from toolcrib.tools import rules
from toolcrib.tools.extra import check_extra
from toolcrib.tools.fallback import AnyFallback, check_fallback
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.identity import Place
    from toolcrib.tools.result import ToolResult


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
        rules.check_provider_run(self)

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


def _is_dataclass_type(annotation: Any) -> bool:
    return isinstance(annotation, type) and is_dataclass(annotation)


LONGEST_DESCRIPTION = 200


@runtime_checkable
class HostedToolConfig(Protocol):
    """Marks a type as the options of a hosted tool; any frozen dataclass qualifies."""


@runtime_checkable
class HostedToolOutput(Protocol):
    """Marks a type as the parsed output of a hosted tool."""


ConfigT = TypeVar("ConfigT", bound=HostedToolConfig)
OutputT = DefaultTypeVar("OutputT", bound=HostedToolOutput, default=Any)


ConfigFunction: TypeAlias = Callable[[Any, Any], ConfigT | None]
"""Gives the options of a hosted tool for one turn, from the params of its section and the session;
`None` withholds the tool."""


def declared_config(config: ConfigT | ConfigFunction[ConfigT]) -> ConfigT:
    """Return the options as a tool's field holds them: a function stands for what it will give."""
    return cast("ConfigT", config)


class HostedFields(TypedDict, total=False):
    """The fields of a hosted tool that are the same for every kind."""

    extra: Mapping[str, Any]
    optional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedTool(NativeTool[None, OutputT], Generic[ConfigT, OutputT]):
    """A capability that adapters map to their provider by `kind`. `OutputT` is what
    `PromptResponse.output_of` gives for it, as a type checker sees it.

    It has no params and no handler: the provider runs it, and the codec of the adapter parses its
    output. `fallback` names a local tool for providers that lack the kind; without one, that is an
    error.
    """

    _type_fields: ClassVar[tuple[str, ...]] = ()

    kind: str
    config: ConfigT = field(hash=False)
    """The options, or a `ConfigFunction` that gives them for each turn."""
    fallback: AnyFallback[ConfigT] = field(default=None, hash=False)
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False, repr=False)
    """Fields of the wire entry that `config` does not have, as the provider spells them. A field
    that `config` writes is refused."""
    optional: bool = False
    """Whether a prompt goes on without the tool, and records that, where the provider cannot do
    it and there is no fallback."""

    def __post_init__(self) -> None:
        super(HostedTool, self).__post_init__()
        self._check_kind()
        if config_function(self) is None:
            check_frozen_config(self.name, self.config)
        check_fallback(self.name, self.fallback)
        object.__setattr__(self, "extra", check_extra(self.name, self.extra))
        if not isinstance(self.optional, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(f"tool {self.name!r}: optional must be True or False")
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
        kind_of_config = getattr(self.config, "kind", self.kind)
        if kind_of_config != self.kind:
            raise InvalidTool(
                f"tool {self.name!r}: kind is {self.kind!r}, and its config is a "
                f"{type(self.config).__name__}, which is for {kind_of_config!r}; give it a config "
                "of its own kind"
            )

    def _check_types(self) -> None:
        if self.params_type is not None:
            raise InvalidTool(
                f"tool {self.name!r}: a hosted tool takes no params; put its options in config"
            )


def config_function(tool: Tool[Any, Any]) -> Callable[[Any, Any], Any] | None:
    """Return the function that gives a tool its options for each turn, if there is one."""
    config: Any = getattr(tool, "config", None)
    is_function = callable(config) and not isinstance(config, type) and not is_dataclass(config)
    if not is_function or not isinstance(tool, HostedTool):
        return None
    return cast("Callable[[Any, Any], Any]", config)


def check_frozen_config(name: str, config: object) -> None:
    """Refuse options that are not an instance of a frozen dataclass: they could change after the
    check.

    The marker protocol is empty, so `isinstance` would prove nothing.
    """
    is_instance = is_dataclass(config) and not isinstance(config, type)
    if is_instance and type(config).__dataclass_params__.frozen:  # pyright: ignore
        return
    raise InvalidTool(
        f"tool {name!r}: config must be an instance of a frozen dataclass, "
        f"not {type(config).__name__}; declare it with @dataclass(frozen=True, slots=True)"
    )


C = TypeVar("C")

OutputHook: TypeAlias = "Callable[[R, ToolContext], ToolResult[R] | None]"
"""Turns the provider's typed output into the tool's result; `None` keeps the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTool(Tool[P, R], Generic[P, R, C]):
    """A tool bound to one provider.

    Without a handler the provider runs it. With a handler the provider only defines its shape, and
    this process runs it: a patch, or a shell with a handler.
    """

    accepts_overrides: bool = False
    provider: str
    config: C = field(hash=False)
    handle_provider_output: OutputHook[R] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False, repr=False)
    """Fields of the wire entry that `config` does not have, as the provider spells them."""

    def __post_init__(self) -> None:
        super(ProviderTool, self).__post_init__()
        if not isinstance(self.provider, str) or not self.provider.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"tool {self.name!r}: provider must name a provider, like 'openai'; "
                f"it is {self.provider!r}"
            )
        if self.config is not None:
            check_frozen_config(self.name, self.config)
        if self.handler is None:
            rules.check_provider_run(self)
        rules.check_callable(self.name, "handle_provider_output", self.handle_provider_output)
        object.__setattr__(self, "extra", check_extra(self.name, self.extra))

    @property
    def place(self) -> Place:
        """Local when there is a handler, else the provider."""
        return "provider" if self.handler is None else "local"

    def check_declarable(self) -> None:
        """Raise `UsageError` when an adapter cannot declare the tool as it is.

        A class with fields that a `HostedTool` of the same kind lacks overrides this, so that what
        they ask for is not dropped in silence.
        """


def kind_of(tool: Tool[Any, Any]) -> str | None:
    """Return the kind of a hosted capability, whatever the tool is called; `None` for other tools.

    A native tool's kind is its name. A provider tool's kind comes from its options, else from its
    name.
    """
    if isinstance(tool, HostedTool):
        return cast("HostedTool[Any]", tool).kind
    if isinstance(tool, NativeTool):
        return tool.name
    if isinstance(tool, ProviderTool):
        kind = getattr(cast("ProviderTool[Any, Any, Any]", tool).config, "kind", None)
        return kind if isinstance(kind, str) else tool.name
    return None


def provider_of(tool: Tool[Any, Any]) -> str | None:
    """Return the provider that a tool is bound to, or `None`."""
    if isinstance(tool, ProviderTool):
        return cast("ProviderTool[Any, Any, Any]", tool).provider
    return None
