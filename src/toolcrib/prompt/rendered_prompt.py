"""Rendering: from a prompt to the text and the tools that an adapter sends.

No provider accepts examples beside a tool, so they are written into the text of the section.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from toolcrib.errors import InvalidPrompt
from toolcrib.prompt.attachments import Attachment, FileAttachment
from toolcrib.prompt.output import OutputSchema
from toolcrib.prompt.section import Section, check_placeholders, fill, located, placeholders, walk
from toolcrib.tools.example import ToolExample
from toolcrib.tools.result import ToolRenderableResult
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.prompt.prompt import Prompt


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

    @property
    def tools(self) -> tuple[Tool[Any, Any], ...]:
        """Tools that run on this side, in the order of their sections."""
        return tuple(tool for tool in self.declared if tool.place != "provider")

    @property
    def hosted_tools(self) -> tuple[Tool[Any, Any], ...]:
        """Tools that the provider runs, in the order of their sections."""
        return tuple(tool for tool in self.declared if tool.place == "provider")


def render(prompt: Prompt[O], output: OutputSchema[O] | None) -> RenderedPrompt[O]:
    """Render every enabled section, depth first."""
    _check_overrides(prompt)
    _check_values(prompt)
    for attachment in prompt.attachments:
        if isinstance(attachment, FileAttachment):
            attachment.check()
    rendering = _Rendering(prompt)
    rendering.add(prompt.sections, depth=2)
    return RenderedPrompt(
        name=prompt.name,
        text="\n\n".join(rendering.blocks),
        declared=tuple(rendering.tools.values()),
        output=output,
        attachments=prompt.attachments,
    )


class _Rendering:
    def __init__(self, prompt: Prompt[Any]) -> None:
        self._prompt = prompt
        self._offered_by: dict[str, str] = {}
        self.blocks: list[str] = []
        self.tools: dict[str, Tool[Any, Any]] = {}

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
        heading = f"{'#' * min(depth, _DEEPEST_HEADING)} {section.title}"
        if section.visibility == "summary":
            self._add_block(heading, fill(section.summary or "", values))
            return False
        tools = [self._add_tool(tool, path) for tool in section.tools()]
        examples = [shown_examples(tool) for tool in tools if tool.examples]
        self._add_block(heading, self._text(section, path, values), *examples)
        return True

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

    def _add_tool(self, tool: Tool[Any, Any], path: str) -> Tool[Any, Any]:
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
