"""`Prompt`: sections with a typed answer, and their rendering into the text and tools of a request.

A prompt is rendered before anything is sent. No provider accepts examples beside a tool, so they
are written into the text of the section.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar

from toolcrib.errors import InvalidPrompt
from toolcrib.prompt.attachments import Attachment, FileAttachment, check_attachment
from toolcrib.prompt.output import OutputSchema, check_output_type, output_schema
from toolcrib.prompt.overrides import Overrides
from toolcrib.prompt.section import (
    Section,
    UserText,
    check_placeholders,
    check_siblings,
    fill,
    located,
    placeholders,
    walk,
)
from toolcrib.tools.example import ToolExample
from toolcrib.tools.result import ToolRenderableResult
from toolcrib.tools.tool import Tool
from toolcrib.tools.type_arguments import TypeArguments, type_argument


def shown_examples(tool: Tool[Any, Any]) -> str:
    """Return the examples of a tool as a Markdown list."""
    shown = "\n".join(_shown(example) for example in tool.examples)
    return f"Examples of `{tool.name}`:\n\n{shown}"


def _shown(example: ToolExample[Any, Any]) -> str:
    lines = [f"- {' '.join(example.description.split())}"]
    if example.input is not None:
        lines.append(f"  - input: {_json(example.input)}")
    if example.output is not None:
        lines.append(f"  - output: {_indented(_readable(example.output))}")
    return "\n".join(lines)


def _readable(output: object) -> str:
    """Return what the model would read if the tool returned this output."""
    if isinstance(output, str):
        return output
    return output.render() if isinstance(output, ToolRenderableResult) else _json(output)


def _json(value: object) -> str:
    from pydantic_core import to_json

    return to_json(value, bytes_mode="base64", fallback=str).decode()


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")


O = TypeVar("O", default=str)  # noqa: E741

_DEEPEST_HEADING = 6


@dataclass(frozen=True, slots=True)
class RenderedPrompt(Generic[O]):
    """Everything a request needs. `tools` and `hosted_tools` are views of `declared` by place."""

    name: str
    text: str
    declared: tuple[Tool[Any, Any], ...] = ()
    output: OutputSchema[O] | None = None
    attachments: tuple[Attachment, ...] = ()
    instructions: str = ""
    """What the host tells the model. No part of `text`: it goes where the provider has a place for
    instructions, which a user's text cannot reach.
    """
    left_out: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The sections, by path, that are not in `text` because these tools of theirs are withheld."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False, repr=False)
    """By the name of a tool, the params of its section, or the values of a section without."""

    @property
    def tools(self) -> tuple[Tool[Any, Any], ...]:
        """Tools that run on this side, in the order of their sections."""
        return tuple(tool for tool in self.declared if tool.place != "provider")

    @property
    def hosted_tools(self) -> tuple[Tool[Any, Any], ...]:
        """Tools that the provider runs, in the order of their sections."""
        return tuple(tool for tool in self.declared if tool.place == "provider")


def render(
    prompt: Prompt[O], output: OutputSchema[O] | None, withheld: Collection[str] = ()
) -> RenderedPrompt[O]:
    """Render every enabled section, depth first, without the tools that are withheld."""
    _check_overrides(prompt)
    _check_values(prompt)
    for attachment in prompt.attachments:
        if isinstance(attachment, FileAttachment):
            attachment.check()
    rendering = _Rendering(prompt, withheld)
    rendering.add(prompt.sections, depth=2)
    return RenderedPrompt(
        name=prompt.name,
        text="\n\n".join(rendering.blocks),
        declared=tuple(rendering.tools.values()),
        output=output,
        attachments=prompt.attachments,
        instructions="\n\n".join(filter(None, [prompt.instructions, *rendering.instructions])),
        left_out=tuple(rendering.left_out),
        params=rendering.params,
    )


class _Rendering:
    def __init__(self, prompt: Prompt[Any], withheld: Collection[str] = ()) -> None:
        self._prompt = prompt
        self._withheld = withheld
        self.left_out: list[tuple[str, tuple[str, ...]]] = []
        self._offered_by: dict[str, str] = {}
        self.blocks: list[str] = []
        self.instructions: list[str] = []
        self.tools: dict[str, Tool[Any, Any]] = {}
        self.params: dict[str, Any] = {}

    def add(self, sections: Sequence[Section[Any]], *, depth: int, above: str = "") -> None:
        for section in sections:
            path = f"{above}{section.key}"
            with located(f"section {path!r}"):
                is_open = self._add_section(section, path, depth)
            if is_open:
                self.add(section.children, depth=depth + 1, above=f"{path}/")

    def _add_section(self, section: Section[Any], path: str, depth: int) -> bool:
        """Add a section. Returns whether its children follow."""
        params, values = _bound(self._prompt, section)
        if not section.is_enabled(params):
            return False
        if section.is_left_out(self._withheld):
            self.left_out.append((path, tuple(tool.name for tool in section.tools())))
            return False
        section_params = values if params is None else params
        if isinstance(section, UserText):
            tools = [self._add_tool(tool, path, section_params) for tool in section.tools()]
            self.instructions += self._examples(tools)
            self.blocks.append(section.text)
            return True
        heading = f"{'#' * min(depth, _DEEPEST_HEADING)} {section.title}"
        if section.visibility == "summary":
            self._add_block(heading, fill(section.summary or "", values))
            return False
        tools = [self._add_tool(tool, path, section_params) for tool in section.tools()]
        self._add_block(heading, self._text(section, path, values), *self._examples(tools))
        return True

    def _examples(self, tools: Sequence[Tool[Any, Any]]) -> list[str]:
        offered = (tool for tool in tools if tool.name not in self._withheld)
        return [shown_examples(tool) for tool in offered if tool.examples]

    def _add_block(self, *parts: str) -> None:
        self.blocks.append("\n\n".join(part for part in parts if part))

    def _text(self, section: Section[Any], path: str, values: Mapping[str, Any]) -> str:
        overrides = self._prompt.overrides
        if path not in overrides.sections:
            return section.body(values)
        text = overrides.section(path, section.source, accepts=section.accepts_overrides)
        with located("its override"):
            check_placeholders(text, section.params_type)
            return fill(text, values)

    def _add_tool(self, tool: Tool[Any, Any], path: str, params: Any) -> Tool[Any, Any]:
        if tool.name in self.tools:
            raise InvalidPrompt(
                f"there is a second tool named {tool.name!r}, after the one of section "
                f"{self._offered_by[tool.name]!r}; names must be unique in a prompt"
            )
        overrides = self._prompt.overrides
        if tool.name in overrides.tools:
            description = overrides.tool(
                tool.name, tool.description, accepts=tool.accepts_overrides
            )
            with located("its override"):
                tool = replace(tool, description=description)
        self.tools[tool.name] = tool
        self.params[tool.name] = params
        self._offered_by[tool.name] = path
        return tool


def _bound(prompt: Prompt[Any], section: Section[Any]) -> tuple[Any, Mapping[str, Any]]:
    """The params of a section (None when it takes none) and its values by name."""
    wanted = section.params_type
    if wanted is None:
        return None, prompt.values
    params = prompt.params.get(wanted)
    if params is None:
        params = _by_default(wanted)
    return params, {field.name: getattr(params, field.name) for field in fields(wanted)}


def _by_default(wanted: type[Any]) -> Any:
    required = [
        field.name
        for field in fields(wanted)
        if field.init and field.default is MISSING and field.default_factory is MISSING
    ]
    if required:
        arguments = ", ".join(f"{name}=..." for name in required)
        raise InvalidPrompt(
            f"it is filled from {wanted.__name__}, which is missing; bind one: "
            f"prompt.bind({wanted.__name__}({arguments}))"
        )
    return wanted()


def _check_overrides(prompt: Prompt[Any]) -> None:
    overrides = prompt.overrides
    if not overrides.sections and not overrides.tools:
        return
    sections = dict(walk(prompt.sections))
    # Also of sections that are out this time: their overrides are no mistake.
    tools = {tool.name for section in sections.values() for tool in section.tools()}
    overrides.check_known(sections, tools)


def _check_values(prompt: Prompt[Any]) -> None:
    """Refuse values that no section uses: a misspelt name must not go unnoticed."""
    known: set[str] = set()
    for path, section in walk(prompt.sections):
        if section.params_type is not None:
            continue
        if section.placeholders is None:
            return
        known |= section.placeholders
        if path in prompt.overrides.sections:
            known |= placeholders(prompt.overrides.sections[path].text)
    unknown = sorted(prompt.values.keys() - known)
    if unknown:
        names = ", ".join(sorted(known)) or "none"
        raise InvalidPrompt(
            f"there is a value for ${unknown[0]}, which no section without params uses; "
            f"they use: {names}"
        )


_PART = re.compile(r"[a-z0-9_.-]{1,64}")
_set = object.__setattr__


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt(TypeArguments, Generic[O]):
    """`Prompt[Answer](ns=..., key=..., sections=[...])` asks for an `Answer`; `Prompt(...)` asks
    for text. `bind` returns a new prompt with values; nothing is changed in place.
    """

    _type_fields: ClassVar[tuple[str, ...]] = ("output_type",)

    ns: str
    key: str
    sections: Sequence[Section[Any]] = field(hash=False)
    output_type: type[O] | None = None
    params: Mapping[type[Any], Any] = field(default_factory=dict[type[Any], Any], hash=False)
    values: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    attachments: tuple[Attachment, ...] = ()
    overrides: Overrides = field(default_factory=Overrides, hash=False)
    instructions: str = ""
    """System instructions for the model, as they stand: no template. They are sent with every
    request, apart from the text, and are part of the prompt's digest.
    """

    def __post_init__(self) -> None:
        for part in (self.ns, self.key):
            if not _PART.fullmatch(part):
                raise InvalidPrompt(f"ns and key must match {_PART.pattern}; {part!r} does not")
        _set(self, "sections", tuple(self.sections))
        _set(self, "params", MappingProxyType(dict(self.params)))
        _set(self, "values", MappingProxyType(dict(self.values)))
        _set(self, "attachments", tuple(self.attachments))
        if self.output_type is None:
            _set(self, "output_type", type_argument(type(self), Prompt))
        with located(f"prompt {self.name!r}"):
            self._check()

    @property
    def name(self) -> str:
        """The name of this prompt in events and errors."""
        return f"{self.ns}:{self.key}"

    def bind(
        self, /, *params: Any, attachments: Sequence[Attachment] = (), **values: Any
    ) -> Prompt[O]:
        """Return this prompt with values for its placeholders.

        `params` are instances of the dataclasses that sections name; `values` fill sections that
        name none.
        """
        by_type: dict[type[Any], Any] = {type(instance): instance for instance in params}
        if len(by_type) < len(params):
            raise InvalidPrompt(f"prompt {self.name!r}: bind got two params of one type")
        return replace(
            self,
            params={**self.params, **by_type},
            values={**self.values, **values},
            attachments=(*self.attachments, *attachments),
        )

    def with_overrides(self, overrides: Overrides) -> Prompt[O]:
        """Return this prompt with texts replaced."""
        return replace(self, overrides=overrides)

    def render(self, *, withheld: Collection[str] = ()) -> RenderedPrompt[O]:
        """Return text, tools and output schema. Raises `InvalidPrompt` that names the fault.

        `withheld` are the names of tools that will not be offered: their examples and the sections
        that are about them alone are left out.
        """
        with located(f"prompt {self.name!r}"):
            output = None if self._is_plain else output_schema(self.output_type)
            return render(self, output, withheld)

    @property
    def _is_plain(self) -> bool:
        return self.output_type is None or self.output_type is str

    def _check(self) -> None:
        check_siblings(self.sections)
        if not self._is_plain:
            check_output_type(self.output_type)
        for attachment in self.attachments:
            check_attachment(attachment)
        if self.params:
            self._check_params()

    def _check_params(self) -> None:
        known = {section.params_type for _, section in walk(self.sections)} - {None}
        for wanted, instance in self.params.items():
            if type(instance) is not wanted:
                raise InvalidPrompt(f"params of {wanted!r} are given as {type(instance).__name__}")
            if isinstance(instance, type) and instance in known:
                raise InvalidPrompt(f"bind an instance of {instance.__name__}, not the class")
            if wanted not in known:
                names = (
                    ", ".join(sorted(known_type.__name__ for known_type in known if known_type))
                    or "none"
                )
                raise InvalidPrompt(
                    f"no section is filled from {wanted.__name__}; they are filled from: {names}"
                )
