"""A prompt: sections with a typed answer, rendered before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

from toolcrib.errors import InvalidPrompt
from toolcrib.prompt.attachments import Attachment
from toolcrib.prompt.output import OutputSchema, output_schema
from toolcrib.prompt.overrides import Overrides
from toolcrib.prompt.rendering import RenderedPrompt, render
from toolcrib.prompt.section import Section
from toolcrib.tools.type_arguments import TypeArguments

O = TypeVar("O")  # noqa: E741

_PART = re.compile(r"[a-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt(TypeArguments, Generic[O]):
    """`Prompt[Answer](ns=..., key=..., sections=[...])` asks for an `Answer`; `Prompt(...)` for
    text. `bind` fills it in and gives a new prompt; nothing is changed in place.
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

    def __post_init__(self) -> None:
        for part in (self.ns, self.key):
            if not _PART.fullmatch(part):
                raise InvalidPrompt(f"ns and key must match {_PART.pattern}; {part!r} does not")
        object.__setattr__(self, "sections", tuple(self.sections))
        seen: set[str] = set()
        for path, _ in walk(self.sections):
            if path in seen:
                raise InvalidPrompt(f"prompt {self.name!r} has two sections at {path!r}")
            seen.add(path)

    @property
    def name(self) -> str:
        """How events and errors call this prompt."""
        return f"{self.ns}:{self.key}"

    def bind(
        self, *params: Any, attachments: Sequence[Attachment] = (), **values: Any
    ) -> Prompt[O]:
        """This prompt with values for its placeholders.

        `params` are instances of the dataclasses that sections name; `values` fill sections that
        name none.
        """
        known = {section.params_type for _, section in walk(self.sections)}
        for each in params:
            if type(each) not in known:
                raise InvalidPrompt(
                    f"no section of prompt {self.name!r} takes {type(each).__name__} params"
                )
        return replace(
            self,
            params={**self.params, **{type(each): each for each in params}},
            values={**self.values, **values},
            attachments=(*self.attachments, *attachments),
        )

    def with_overrides(self, overrides: Overrides) -> Prompt[O]:
        """This prompt with other texts in place of its own."""
        return replace(self, overrides=overrides)

    def render(self) -> RenderedPrompt[O]:
        """Text, tools and output schema. Raises `InvalidPrompt` naming what is missing."""
        schema: OutputSchema[O] | None = None
        if self.output_type is not None and self.output_type is not str:
            schema = output_schema(self.output_type)
        return render(self, schema)

    def values_for(self, section: Section[Any]) -> tuple[Any, Mapping[str, Any]]:
        """The params of a section (None when it takes none) and its values by name."""
        if section.params_type is None:
            return None, self.values
        bound = self.params.get(section.params_type)
        if bound is None:
            try:
                bound = section.params_type()
            except TypeError:
                raise InvalidPrompt(
                    f"section {section.key!r} needs {section.params_type.__name__}; bind one: "
                    f"prompt.bind({section.params_type.__name__}(...))"
                ) from None
        return bound, {field.name: getattr(bound, field.name) for field in fields(bound)}


def walk(sections: Sequence[Section[Any]], above: str = "") -> Iterator[tuple[str, Section[Any]]]:
    """Every section with its path, depth first."""
    for section in sections:
        path = f"{above}{section.key}"
        yield path, section
        yield from walk(section.children, f"{path}/")
