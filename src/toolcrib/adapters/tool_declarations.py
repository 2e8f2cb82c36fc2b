"""The declarations of a prompt's tools: functions, hosted tools and client-run tools.

Hosted tools of every declaration style become the `HostedTool` that codecs take, and tool names
that a provider would refuse get a derived name on the wire.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.adapters.codec import Codec, Contribution, HostedToolCodec, RawItem
from toolcrib.adapters.credentials import Credentials
from toolcrib.adapters.items import text_of
from toolcrib.adapters.tool_calls import AnyProviderTool, ClientCodec
from toolcrib.adapters.wire_entry import with_extra
from toolcrib.errors import PromptEvaluationError, UnsupportedOption, UsageError, WrongProvider
from toolcrib.tools.code_interpreter import CodeInterpreterConfig
from toolcrib.tools.extra import secrets_of_extra
from toolcrib.tools.function_options import FunctionOptions, free_form_argument
from toolcrib.tools.image_generation import ImageGenerationConfig
from toolcrib.tools.program import ProgramConfig
from toolcrib.tools.provider_tools import HostedTool, ProviderTool, config_function, kind_of
from toolcrib.tools.shell import ContainerShellConfig
from toolcrib.tools.tool import Tool
from toolcrib.tools.tool_search import ToolSearchConfig
from toolcrib.tools.web_fetch import WebFetchConfig
from toolcrib.tools.web_search import WebSearchConfig
from toolcrib.tools.x_search import XSearchConfig

if TYPE_CHECKING:
    from toolcrib.adapters.turn_tools import ProviderProfile
    from toolcrib.tools.prepared_tool import PreparedTool


@dataclass(frozen=True, slots=True)
class NoConfig:
    """The configuration of a tool that has none."""


_NO_NAME: Final = re.compile(r"[^a-z0-9_-]")

_DEFAULTS: Final[Mapping[str, Callable[[], Any]]] = {
    "code_interpreter": CodeInterpreterConfig,
    "image_generation": ImageGenerationConfig,
    "shell": ContainerShellConfig,
    "tool_search": ToolSearchConfig,
    "web_fetch": WebFetchConfig,
    "web_search": WebSearchConfig,
    "x_search": XSearchConfig,
    "program": ProgramConfig,
}


def as_hosted(tool: Tool[Any, Any], *, provider: str) -> HostedTool[Any]:
    """A `HostedTool` as it is; a `NativeTool` or `ProviderTool` as one of the same name.

    A native tool's capability is its name. A tool without options takes the defaults of its kind.
    Raises `UsageError` for what cannot be offered.
    """
    if config_function(tool) is not None:
        raise UsageError(
            f"tool {tool.name!r} has its options from a function of the run; give it the options "
            "themselves: dataclasses.replace(tool, config=...)"
        )
    if isinstance(tool, HostedTool):
        return cast("HostedTool[Any]", tool)
    if isinstance(tool, ProviderTool):
        bound = cast("ProviderTool[Any, Any, Any]", tool)
        check_provider(bound, provider)
        bound.check_declarable()
        return _view(bound, kind_of(bound) or bound.name, bound.config)
    return _view(tool, tool.name, None)


def check_provider(tool: ProviderTool[Any, Any, Any], provider: str) -> None:
    """Refuse a tool that is bound to another provider."""
    if tool.provider != provider:
        raise WrongProvider(
            f"tool {tool.name!r} is for {tool.provider!r}, and this adapter is for {provider!r}; "
            "offer it only where it runs"
        )


def undeclared(kind: str) -> HostedTool[Any]:
    """A stand-in for a tool that the provider ran although nobody offered it, under any name."""
    name = _NO_NAME.sub("_", kind.lower())[:64] or "unknown"
    return HostedTool(kind=kind or name, name=name, description="Run unasked.", config=NoConfig())


def stand_ins_of(codecs: Iterable[AnyCodec]) -> tuple[HostedDeclaration, ...]:
    """A stand-in for every kind that a provider may run although a prompt does not declare it. They
    depend on the adapter alone, so an adapter makes them once.
    """
    return tuple(
        HostedDeclaration(undeclared(codec.kind), codec)
        for codec in codecs
        if isinstance(codec, Codec)
    )


def _view(tool: Tool[Any, Any], kind: str, config: Any) -> HostedTool[Any]:
    description = tool.description.encode("ascii", "replace").decode()[:200]
    chosen = _DEFAULTS.get(kind, NoConfig)() if config is None else config
    extra: Mapping[str, Any] = getattr(tool, "extra", {})
    return HostedTool(
        kind=kind, name=tool.name, description=description, config=chosen, extra=extra
    )


_TAKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """A wire name for each tool name, unique among them. Most names are their own."""
    plain = list(names)
    own = {name for name in plain if _TAKEN.fullmatch(name)}
    derived: dict[str, str] = {}
    for name in plain:
        derived[name] = name if name in own else _derive(name, own)
    return derived


def _derive(name: str, own: set[str]) -> str:
    stem = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if len(stem) <= 64 and stem not in own:
        own.add(stem)
        return stem
    # The digest tells apart what becomes the same when it is cut or cleaned.
    suffix = sha256(name.encode()).hexdigest()[:8]
    unique = f"{stem[:55]}_{suffix}"
    own.add(unique)
    return unique


AnyCodec = HostedToolCodec[Any, Any]

MCP = "mcp"


@dataclass(frozen=True, slots=True)
class HostedDeclaration:
    """A provider-run tool with the codec that speaks for it."""

    tool: HostedTool[Any]
    codec: AnyCodec

    @property
    def is_mcp(self) -> bool:
        """Whether the tool is a server whose calls the provider may ask about."""
        return self.tool.kind == MCP and hasattr(self.tool.config, "server_label")

    @property
    def secrets(self) -> tuple[str, ...]:
        """What its options hold that must not be written down."""
        return _secrets(self.tool)

    def is_call(self, item: RawItem) -> bool:
        """Whether an item is a call of this tool that the provider ran."""
        if isinstance(self.codec, Codec):
            return self.codec.is_call(item, self.tool)
        return text_of(item, "type") in self._call_types()

    def is_over(self, item: RawItem, items: Sequence[RawItem]) -> bool:
        """Whether everything that is to be known of a call is among the items of a step."""
        return not isinstance(self.codec, Codec) or self.codec.is_over(item, items)

    def contribute(self) -> Contribution:
        """What the tool adds to a request."""
        if isinstance(self.codec, Codec):
            contribution = self.codec.contribute(self.tool)
        else:
            contribution = Contribution((self.codec.serialize(self.tool),))
        return with_extra(contribution, self.tool.extra, self.tool.name)

    def _call_types(self) -> frozenset[str]:
        """A codec of the least kind need not say how its calls come: by the provider's habit."""
        call_types: frozenset[str] | None = getattr(self.codec, "call_types", None)
        if call_types is not None:
            return frozenset(call_types)
        wire_type = self.codec.serialize(self.tool).get("type", self.tool.kind)
        return frozenset({f"{self.tool.kind}_call", f"{wire_type}_call"})


@dataclass(frozen=True, slots=True)
class ClientDeclaration:
    """A tool that the provider defines and we run, with the codec that speaks for it."""

    tool: AnyProviderTool
    codec: ClientCodec

    @property
    def secrets(self) -> tuple[str, ...]:
        """What its options hold that must not be written down."""
        return _secrets(self.tool)

    def contribute(self) -> Contribution:
        """What the tool adds to a request."""
        return with_extra(self.codec.contribute(self.tool), self.tool.extra, self.tool.name)


PLAIN_FUNCTION: Final = FunctionOptions()


@dataclass(frozen=True, slots=True)
class FunctionDeclaration:
    """A tool that this process runs, as the model is told of it."""

    wire_name: str
    description: str
    parameters: Mapping[str, Any] = field(hash=False)
    options: FunctionOptions = PLAIN_FUNCTION
    output_schema: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def free_form_argument(self) -> str | None:
        """The argument that the text of a free-form call is; None for a call with JSON."""
        if self.options.free_form is None:
            return None
        return free_form_argument(self.wire_name, self.parameters)


@dataclass(frozen=True, slots=True)
class ToolDeclarations:
    """Everything a request says about tools; built once a prompt."""

    functions: tuple[FunctionDeclaration, ...]
    entries: list[dict[str, Any]] = field(repr=False)
    """Hosted and client-run tools as their codecs write them. Not shown, like `body`: an entry may
    hold a server's credentials.
    """
    include: list[str]
    body: dict[str, Any] = field(repr=False)
    hosted: tuple[HostedDeclaration, ...]
    client_run: tuple[ClientDeclaration, ...]
    names: Mapping[str, str]
    """Our names by wire name."""
    wire: Mapping[str, str]
    """Wire names by ours."""

    @property
    def has_tools(self) -> bool:
        """Whether the model may call anything at all."""
        return bool(self.functions or self.entries)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What the options of all tools hold that must not be written down."""
        return tuple(secret for declaration in self._others() for secret in declaration.secrets)

    @property
    def offered(self) -> list[str]:
        """The names of all tools that are offered."""
        return [*self.wire, *(declaration.tool.name for declaration in self._others())]

    def _others(self) -> tuple[HostedDeclaration | ClientDeclaration, ...]:
        return (*self.hosted, *self.client_run)


NO_TOOLS: Final = ToolDeclarations((), [], [], {}, (), (), {}, {})
"""For what is asked of a provider without a prompt."""


def function_of(tool: PreparedTool, wire_name: str) -> FunctionDeclaration:
    """A tool of this process as a model is told of it."""
    declaration, declared = tool.declaration, tool.tool
    return FunctionDeclaration(
        wire_name,
        declaration.description,
        declaration.parameters,
        declared.function_options or PLAIN_FUNCTION,
        declared.output_schema,
    )


def check_functions(
    functions: Sequence[PreparedTool], hosted_kinds: Collection[str], profile: ProviderProfile
) -> None:
    """Refuse options of functions that the provider does not take, or that would keep a tool out of
    the model's reach for ever. Raises `UsageError`.
    """
    for tool in functions:
        options, name = tool.tool.function_options, tool.ref.name
        if options is None:
            continue
        wanted = {
            "defer_loading": options.defer_loading,
            "namespace": options.namespace is not None,
            "allowed_callers": options.allowed_callers is not None,
            "free_form.definition": options.free_form is not None and options.free_form.has_grammar,
        }
        for option, is_set in wanted.items():
            if is_set and option not in profile.function_options:
                raise UnsupportedOption(
                    f"the function {name}", option, profile.provider, "leave it out there"
                )
        if options.defer_loading and "tool_search" not in hosted_kinds:
            raise UsageError(
                f"tool {name!r} is loaded only after a tool search, and the prompt has none; add "
                "tool_search_tool(), or leave defer_loading out"
            )
        if options.is_programmatic and "program" not in hosted_kinds:
            raise UsageError(
                f"tool {name!r} is for programs, and the prompt has none; add program_tool(), or "
                "leave allowed_callers out"
            )


def declare(
    functions: Sequence[PreparedTool],
    client_run: Sequence[ClientDeclaration],
    hosted_tools: Sequence[HostedDeclaration],
    *,
    prompt_name: str,
) -> ToolDeclarations:
    """Serialise every tool. Raises `PromptEvaluationError` (phase render) before any request."""
    wire = wire_names(function.declaration.name for function in functions)
    entries: list[dict[str, Any]] = []
    include: dict[str, None] = {}
    body: dict[str, Any] = {}
    owners: dict[str, str] = {}
    for tool in (*client_run, *hosted_tools):
        with Credentials(tool.secrets).hidden_in_errors():
            contribution = _contribution(tool, prompt_name)
        for entry in contribution.tools:
            _refuse_twins(entry, tool.tool.name, owners, prompt_name)
        entries.extend(contribution.tools)
        include.update(dict.fromkeys(contribution.include))
        body.update(contribution.body)
    names = {wire_name: name for name, wire_name in wire.items()}
    declared = tuple(
        function_of(function, wire[function.declaration.name]) for function in functions
    )
    return ToolDeclarations(
        functions=declared,
        entries=entries,
        include=list(include),
        body=body,
        hosted=tuple(hosted_tools),
        client_run=tuple(client_run),
        names=names,
        wire=wire,
    )


def contribution_of(tool: Tool[Any, Any], profile: ProviderProfile) -> Contribution | None:
    """What a tool adds to a request of this provider; None for a function.

    Raises `UsageError` for a tool or an option that the provider does not take.
    """
    declaration = _declaration_of(tool, profile)
    return None if declaration is None else declaration.contribute()


def secrets_in(tool: Tool[Any, Any]) -> tuple[str, ...]:
    """What the options of a tool hold that must not be written down."""
    return _secrets(cast("Any", tool)) if hasattr(tool, "extra") else ()


def _declaration_of(
    tool: Tool[Any, Any], profile: ProviderProfile
) -> HostedDeclaration | ClientDeclaration | None:
    if tool.place == "provider":
        hosted = as_hosted(tool, provider=profile.provider)
        return HostedDeclaration(hosted, codec_of(hosted.kind, profile))
    if not isinstance(tool, ProviderTool):
        return None
    bound = cast("AnyProviderTool", tool)
    check_provider(bound, profile.provider)
    codecs = [codec for codec in profile.client_codecs if codec.speaks_for(bound)]
    return ClientDeclaration(bound, codecs[0]) if codecs else None


def codec_of(kind: str, profile: ProviderProfile) -> AnyCodec:
    """The codec that speaks for a kind of hosted tool. Raises `UsageError` without one."""
    codec = profile.codecs.get(kind)
    if codec is not None:
        return codec
    fault = f"Unsupported hosted tool kind {kind!r} for the {profile.provider} adapter"
    if any(codec.kind == kind for codec in profile.client_codecs):
        raise UsageError(
            f"{fault}: {profile.provider} defines it and you run it; declare it with a handler"
        )
    raise UsageError(f"{fault}; it knows: {', '.join(sorted(profile.codecs)) or 'none'}")


def _contribution(tool: HostedDeclaration | ClientDeclaration, prompt_name: str) -> Contribution:
    try:
        return tool.contribute()
    except UsageError as error:
        raise _unrenderable(str(error), prompt_name) from error
    except Exception as error:
        # A codec of the user's own may fail in any way; nothing has been sent yet.
        problem = f"{type(error).__name__}: {error}"
        if isinstance(tool.tool.config, NoConfig):
            problem = "it needs options; declare it as a HostedTool with a config"
        raise _unrenderable(
            f"the codec of {_kind(tool)} could not serialise {tool.tool.name!r}: {problem}",
            prompt_name,
        ) from error


def _secrets(tool: HostedTool[Any] | AnyProviderTool) -> tuple[str, ...]:
    own: tuple[str, ...] = getattr(tool.config, "secrets", ())
    return (*own, *secrets_of_extra(tool.extra))


def _kind(tool: HostedDeclaration | ClientDeclaration) -> str:
    return tool.tool.kind if isinstance(tool, HostedDeclaration) else tool.codec.kind


def _refuse_twins(entry: RawItem, name: str, owners: dict[str, str], prompt_name: str) -> None:
    """Items do not say which entry they belong to, so each type can be declared once; MCP servers
    are told apart by their labels.
    """
    label = text_of(entry, "server_label") or text_of(entry, "id") or text_of(entry, "name")
    what = " ".join(filter(None, (text_of(entry, "type"), label)))
    twin = owners.setdefault(what, name)
    if twin != name:
        raise _unrenderable(
            f"{name!r} and {twin!r} are both {what}; the provider does not tell which one it "
            "ran, so a prompt can offer only one",
            prompt_name,
        )


def _unrenderable(message: str, prompt_name: str) -> PromptEvaluationError:
    return PromptEvaluationError(message, prompt_name=prompt_name, phase="render")
