"""The tools of a prompt as the Responses API takes them, and back from its names to ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.codec import Codec, Contribution, HostedToolCodec, UnsupportedOption
from toolcrib.adapters.wire_names import wire_names
from toolcrib.errors import PromptEvaluationError
from toolcrib.tools.hosted import HostedTool
from toolcrib.tools.provider import ProviderTool

if TYPE_CHECKING:
    from toolcrib.tools.prepared import Declaration
    from toolcrib.tools.tool import Tool

AnyCodec = HostedToolCodec[Any, Any]


@dataclass(frozen=True, slots=True)
class Hosted:
    """A provider-run tool with the codec that speaks for it."""

    tool: HostedTool[Any]
    codec: AnyCodec

    @property
    def call_types(self) -> frozenset[str]:
        """The item types that are calls of this tool."""
        if isinstance(self.codec, Codec):
            return self.codec.call_types
        return frozenset({f"{self.tool.kind}_call"})

    def contribute(self) -> Contribution:
        """What the tool adds to a request."""
        if isinstance(self.codec, Codec):
            return self.codec.contribute(self.tool)
        return Contribution((self.codec.serialize(self.tool),))


@dataclass(frozen=True, slots=True)
class Declared:
    """Everything a request says about tools; built once a prompt."""

    tools: list[dict[str, Any]]
    include: list[str]
    body: dict[str, Any]
    hosted: tuple[Hosted, ...]
    names: Mapping[str, str]
    """Our names by wire name."""
    wire: Mapping[str, str]
    """Wire names by ours."""

    def choice(self, wanted: str, prompt_name: str) -> Any:
        """`tool_choice` for `auto`, `none`, `required` or the name of one tool."""
        if wanted in ("auto", "none", "required"):
            return wanted
        if wanted in self.wire:
            return {"type": "function", "name": self.wire[wanted]}
        for hosted in self.hosted:
            if hosted.tool.name == wanted:
                if isinstance(hosted.codec, Codec):
                    return hosted.codec.choice(hosted.tool)
                return {"type": hosted.codec.serialize(hosted.tool)["type"]}
        known = ", ".join([*self.wire, *(hosted.tool.name for hosted in self.hosted)]) or "none"
        raise PromptEvaluationError(
            f"tool_choice names {wanted!r}, which the prompt does not offer; it offers: {known}",
            prompt_name=prompt_name,
            phase="render",
        )


def declare(
    functions: Sequence[Declaration],
    hosted_tools: Sequence[HostedTool[Any]],
    codecs: Mapping[str, AnyCodec],
    *,
    prompt_name: str,
    adapter: str,
) -> Declared:
    """Serialise every tool. Raises `PromptEvaluationError` (phase render) before any request."""
    wire = wire_names(each.name for each in functions)
    entries = [_function(each, wire[each.name]) for each in functions]
    include: dict[str, None] = {}
    body: dict[str, Any] = {}
    hosted: list[Hosted] = []
    for tool in hosted_tools:
        found = Hosted(tool, _codec(tool, codecs, prompt_name, adapter))
        contribution = _contribution(found, prompt_name)
        _refuse_twins(found, hosted, prompt_name)
        entries.extend(contribution.tools)
        include.update(dict.fromkeys(contribution.include))
        body.update(contribution.body)
        hosted.append(found)
    names = {wire_name: name for name, wire_name in wire.items()}
    return Declared(entries, list(include), body, tuple(hosted), names, wire)


def is_client_run(tool: Tool[Any, Any]) -> bool:
    """Whether the provider owns the tool's shape and we run it (`apply_patch`, local `shell`)."""
    return isinstance(tool, ProviderTool) and tool.handler is not None


def _function(declaration: Declaration, wire_name: str) -> dict[str, Any]:
    return {
        "type": "function",
        "name": wire_name,
        "description": declaration.description,
        "parameters": declaration.parameters,
        # Strict mode would refuse optional arguments; ours are validated on arrival anyway.
        "strict": False,
    }


def _codec(
    tool: HostedTool[Any], codecs: Mapping[str, AnyCodec], prompt_name: str, adapter: str
) -> AnyCodec:
    codec = codecs.get(tool.kind)
    if codec is None:
        raise PromptEvaluationError(
            f"Unsupported hosted tool kind {tool.kind!r} for the {adapter} adapter; it knows: "
            + (", ".join(sorted(codecs)) or "none"),
            prompt_name=prompt_name,
            phase="render",
        )
    return codec


def _contribution(hosted: Hosted, prompt_name: str) -> Contribution:
    try:
        return hosted.contribute()
    except UnsupportedOption as error:
        raise PromptEvaluationError(str(error), prompt_name=prompt_name, phase="render") from error


def _refuse_twins(found: Hosted, others: Sequence[Hosted], prompt_name: str) -> None:
    """Items do not say which entry they belong to, so one kind can be declared once."""
    twins = [other for other in others if other.tool.kind == found.tool.kind]
    if twins and found.tool.kind != "mcp":
        raise PromptEvaluationError(
            f"{found.tool.name!r} and {twins[0].tool.name!r} are both {found.tool.kind}; the "
            "provider does not tell which one it ran, so a prompt can offer only one",
            prompt_name=prompt_name,
            phase="render",
        )
