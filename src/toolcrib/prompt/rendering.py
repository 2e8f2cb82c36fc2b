"""From a prompt to what an adapter sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from toolcrib.errors import InvalidPrompt
from toolcrib.prompt.attachments import Attachment
from toolcrib.prompt.output import OutputSchema
from toolcrib.prompt.section import MarkdownSection, Section, fill
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.prompt.prompt import Prompt

O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, slots=True)
class RenderedPrompt(Generic[O]):
    """Everything a request needs. `tools` and `hosted_tools` are views of `declared` by place."""

    name: str
    text: str
    declared: tuple[Tool[Any, Any], ...] = ()
    output: OutputSchema[O] | None = None
    attachments: tuple[Attachment, ...] = field(default=())

    @property
    def tools(self) -> tuple[Tool[Any, Any], ...]:
        """Tools that run on our side, in the order of their sections."""
        return tuple(tool for tool in self.declared if tool.place != "provider")

    @property
    def hosted_tools(self) -> tuple[Tool[Any, Any], ...]:
        """Tools that the provider runs, in the order of their sections."""
        return tuple(tool for tool in self.declared if tool.place == "provider")


def render(prompt: Prompt[O], output: OutputSchema[O] | None) -> RenderedPrompt[O]:
    """Render every enabled section, depth first."""
    rendering = _Rendering(prompt)
    rendering.add(prompt.sections, depth=2, above="", offers_tools=True)
    prompt.overrides.check_used(rendering.paths, set(rendering.tools) | rendering.left_out)
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
        self.blocks: list[str] = []
        self.tools: dict[str, Tool[Any, Any]] = {}
        self.paths: set[str] = set()
        self.left_out: set[str] = set()

    def add(
        self, sections: Sequence[Section[Any]], *, depth: int, above: str, offers_tools: bool
    ) -> None:
        for section in sections:
            path = f"{above}{section.key}"
            self.paths.add(path)
            params, values = self._prompt.values_for(section)
            if not section.is_enabled(params):
                self._leave_out(section)
                continue
            is_full = section.visibility == "full"
            self._add_text(section, path, values, depth)
            if is_full and offers_tools:
                self._add_tools(section, path)
            if is_full:
                self.add(
                    section.children, depth=depth + 1, above=f"{path}/", offers_tools=offers_tools
                )
            else:
                self._leave_out(section)

    def _add_text(self, section: Section[Any], path: str, values: Any, depth: int) -> None:
        heading = f"{'#' * min(depth, 6)} {section.title}"
        if section.visibility == "summary":
            text = fill(section.key, section.summary or "", values)
        elif isinstance(section, MarkdownSection):
            template = self._prompt.overrides.section(
                path, section.source, accepts=section.accepts_overrides
            )
            text = fill(section.key, template, values)
        else:
            text = section.body(values)
        self.blocks.append(f"{heading}\n\n{text}".rstrip())

    def _add_tools(self, section: Section[Any], path: str) -> None:
        for tool in section.tools():
            if tool.name in self.tools:
                raise InvalidPrompt(
                    f"prompt {self._prompt.name!r}: section {path!r} offers a second tool named "
                    f"{tool.name!r}; names must be unique in a prompt"
                )
            description = self._prompt.overrides.tool(
                tool.name, tool.description, accepts=tool.accepts_overrides
            )
            is_same = description == tool.description
            self.tools[tool.name] = tool if is_same else replace(tool, description=description)

    def _leave_out(self, section: Section[Any]) -> None:
        """Know what is not offered, so that an override of it is no mistake."""
        self.left_out.update(tool.name for tool in section.tools())
        for child in section.children:
            self._leave_out(child)
