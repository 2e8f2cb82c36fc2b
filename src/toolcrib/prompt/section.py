"""Sections: the parts of a prompt, each with its text and its tools.

The text is a template: `$name` is replaced by a value and `$$` by a dollar sign. Errors name the
section.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import fields, is_dataclass
from string import Template
from typing import Any, ClassVar, Generic, Literal, Self, TypedDict, Unpack

from typing_extensions import TypeVar

from toolcrib.errors import InvalidPrompt, InvalidTool
from toolcrib.tools.prepared_tool import as_tool
from toolcrib.tools.tool import Tool
from toolcrib.tools.type_arguments import TypeArguments, type_argument


def placeholders(text: str) -> frozenset[str]:
    """Return the names in a template. Refuses a `$` that starts no name."""
    names: set[str] = set()
    for match in Template.pattern.finditer(text):
        if match["invalid"] is not None:
            line = text.count("\n", 0, match.start()) + 1
            raise InvalidPrompt(
                f"the '$' in line {line} of the text starts no name; write '$$' for a dollar"
            )
        names.update(filter(None, (match["named"], match["braced"])))
    return frozenset(names)


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Replace the placeholders of a template. Values are not templates themselves."""
    missing = sorted(placeholders(text).difference(values))
    if missing:
        named = ", ".join(f"${name}" for name in missing)
        arguments = ", ".join(f"{name}=..." for name in missing)
        raise InvalidPrompt(f"no value for {named}; bind it: prompt.bind({arguments})")
    return Template(text).substitute(values)


def check_placeholders(text: str, params_type: type[Any] | None) -> frozenset[str]:
    """Return the names in a template. With params, each must be one of their fields."""
    names = placeholders(text)
    if params_type is None:
        return names
    known = {field.name for field in fields(params_type)}
    unknown = sorted(names - known)
    if unknown:
        raise InvalidPrompt(
            f"the text uses ${unknown[0]}, but {params_type.__name__} has only: "
            f"{', '.join(sorted(known)) or 'no fields'}"
        )
    return names


@contextmanager
def located(where: str) -> Generator[None, None, None]:
    """Prefix errors about a prompt or its tools with `where`."""
    try:
        yield
    except (InvalidPrompt, InvalidTool) as error:
        raise InvalidPrompt(f"{where}: {error}") from error


_KEY = re.compile(r"[a-z0-9_-]{1,64}")


def check_key(key: object) -> None:
    """Refuse a key that cannot be part of a section's path."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidPrompt(f"a section's key must match {_KEY.pattern}; {key!r} does not")


def check_title(title: object) -> None:
    """Refuse a title that is not one line of text."""
    if not isinstance(title, str) or not title.strip() or len(title.splitlines()) > 1:
        raise InvalidPrompt(f"the title must be one line of text, not {title!r}")


def check_visibility(visibility: object, summary: str | None) -> None:
    """Refuse an unknown visibility, and visibility "summary" without a summary."""
    if visibility not in ("full", "summary"):
        raise InvalidPrompt(f"visibility is 'full' or 'summary', not {visibility!r}")
    if visibility == "summary" and not summary:
        raise InvalidPrompt("only the summary is to be shown, but there is none; give `summary`")


def check_params_type(params_type: object) -> None:
    """Refuse a params type without fields."""
    if params_type is None or (isinstance(params_type, type) and is_dataclass(params_type)):
        return
    raise InvalidPrompt(f"params must be a dataclass, not {params_type!r}")


def provider_run(tool: object) -> Tool[Any, Any]:
    """Return the tool. Refuses a tool that does not run at the provider."""
    ready = as_tool(tool)
    if ready.place != "provider":
        raise InvalidPrompt(
            f"the provider does not run tool {ready.name!r}; pass it as tools, not hosted_tools"
        )
    return ready


P = TypeVar("P", default=None)
Visibility = Literal["full", "summary"]


class _Shared(TypedDict, Generic[P], total=False):
    children: Sequence[Section[Any]]
    enabled: Callable[[P], bool] | None
    visibility: Visibility
    summary: str | None
    accepts_overrides: bool
    only_with_tools: bool


class SectionOptions(_Shared[P], Generic[P], total=False):
    """The options of a section besides title, key and text."""

    tools: Sequence[object]
    hosted_tools: Sequence[Tool[Any, Any]]
    params_type: type[P] | None


class SectionChanges(_Shared[P], Generic[P], total=False):
    """The fields that a clone of a section may change."""

    title: str
    key: str


class Section(TypeArguments, ABC, Generic[P]):
    """A part of a prompt. `Section[Params]` names the dataclass that fills its text.

    `enabled` decides from the params (`None` when there are none) whether the section is rendered.
    With `visibility="summary"` only the summary is rendered: no tool, no child. A section that is
    about its tools says `only_with_tools=True`: it is left out, with its children, when all of them
    are withheld and nothing takes their place.
    """

    _type_fields: ClassVar[tuple[str, ...]] = ("params_type",)

    def __init__(
        self,
        *,
        title: str,
        key: str,
        children: Sequence[Section[Any]] = (),
        enabled: Callable[[P], bool] | None = None,
        tools: Sequence[object] = (),
        hosted_tools: Sequence[Tool[Any, Any]] = (),
        visibility: Visibility = "full",
        summary: str | None = None,
        accepts_overrides: bool = True,
        only_with_tools: bool = False,
        params_type: type[P] | None = None,
    ) -> None:
        self.title = title
        self.key = key
        self.children = tuple(children)
        self.enabled = enabled
        self.visibility: Visibility = visibility
        self.summary = summary
        self.accepts_overrides = accepts_overrides
        self.only_with_tools = only_with_tools
        self.params_type: type[P] | None = params_type or type_argument(type(self), Section)
        with located(f"section {key!r}"):
            self._tools = (*map(as_tool, tools), *map(provider_run, hosted_tools))
        self._check()

    @abstractmethod
    def body(self, values: Mapping[str, Any]) -> str:
        """Return the text under the title, filled from `values`."""

    @property
    @abstractmethod
    def source(self) -> str:
        """The unfilled text, which an override replaces."""

    @property
    def placeholders(self) -> frozenset[str] | None:
        """The names that fill the text; `None` when only rendering can tell."""
        return None

    def tools(self) -> tuple[Tool[Any, Any], ...]:
        """Return the tools that this section declares, in every place."""
        if type(self).hosted_tools is Section.hosted_tools:
            return self._tools
        hosted = {id(tool): tool for tool in map(provider_run, self.hosted_tools())}
        # What an overridden hosted_tools() leaves out is not offered, whoever declared it.
        mine = [tool for tool in self._tools if tool.place != "provider" or id(tool) in hosted]
        known = {id(tool) for tool in mine}
        return (*mine, *(tool for number, tool in hosted.items() if number not in known))

    def hosted_tools(self) -> tuple[Tool[Any, Any], ...]:
        """Return the provider-run tools of this section; override it to compute them."""
        return tuple(tool for tool in self._tools if tool.place == "provider")

    def is_enabled(self, params: P) -> bool:
        """Whether the section is rendered, given its params."""
        if self.enabled is None:
            return True
        answer = self.enabled(params)
        # A coroutine or the text "no" would count as true and offer what was to stay out.
        if not isinstance(answer, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidPrompt(f"enabled must return True or False, not {type(answer).__name__}")
        return answer

    def is_left_out(self, withheld: Collection[str]) -> bool:
        """Whether the section says nothing true without the tools of these names."""
        if not self.only_with_tools or not withheld:
            return False
        tools = self.tools()
        return bool(tools) and all(tool.name in withheld for tool in tools)

    def clone(self, **changes: Unpack[SectionChanges[P]]) -> Self:
        """Return a copy of this section with some fields changed, such as the key."""
        unknown = sorted(changes.keys() - SectionChanges.__annotations__)
        if unknown:
            raise InvalidPrompt(
                f"section {self.key!r}: a clone cannot change {unknown[0]!r}, only "
                f"{', '.join(SectionChanges.__annotations__)}"
            )
        cloned = copy(self)
        for name, value in changes.items():
            setattr(cloned, name, value)
        cloned.children = tuple(cloned.children)
        cloned._check()
        return cloned

    def _check(self) -> None:
        check_key(self.key)
        with located(f"section {self.key!r}"):
            check_title(self.title)
            check_visibility(self.visibility, self.summary)
            check_params_type(self.params_type)
            check_siblings(self.children)
            self._summary_names = check_placeholders(self.summary or "", self.params_type)


class MarkdownSection(Section[P]):
    """A section whose text is a template: params replace `$name`, and `$$` is a dollar."""

    def __init__(
        self, *, title: str, key: str, template: str, **options: Unpack[SectionOptions[P]]
    ) -> None:
        self.template = template
        super().__init__(title=title, key=key, **options)
        with located(f"section {key!r}"):
            self._names = check_placeholders(template, self.params_type)

    @property
    def source(self) -> str:
        """The template."""
        return self.template

    @property
    def placeholders(self) -> frozenset[str] | None:
        """The names in template and summary; `None` when a subclass overrides `body`."""
        is_plain = type(self).body is MarkdownSection.body
        return self._names | self._summary_names if is_plain else None

    def body(self, values: Mapping[str, Any]) -> str:
        """Return the filled template."""
        return fill(self.template, values)


class UserText(Section[None]):
    """What a person wrote, exactly: no heading, no placeholders, and nothing of the host's beside
    it. The examples of its tools are part of the prompt's instructions.
    """

    def __init__(self, text: str, *, key: str = "user", tools: Sequence[object] = ()) -> None:
        self.text = text
        super().__init__(title="User", key=key, tools=tools, accepts_overrides=False)

    @property
    def source(self) -> str:
        """The text."""
        return self.text

    @property
    def placeholders(self) -> frozenset[str] | None:
        """None: the text is no template."""
        return frozenset()

    def body(self, values: Mapping[str, Any]) -> str:
        """The text, whatever is in it."""
        return self.text


def walk(sections: Sequence[Section[Any]]) -> Iterator[tuple[str, Section[Any]]]:
    """Every section with its path, in no particular order."""
    waiting = [(section.key, section) for section in sections]
    while waiting:
        path, section = waiting.pop()
        yield path, section
        waiting.extend((f"{path}/{child.key}", child) for child in section.children)


def check_siblings(sections: Sequence[object]) -> None:
    """Refuse values that are no sections, and two sections with one key."""
    seen: set[str] = set()
    for section in sections:
        if not isinstance(section, Section):
            raise InvalidPrompt(f"{section!r} is not a section; write MarkdownSection(...)")
        if section.key in seen:
            raise InvalidPrompt(f"there are two sections with the key {section.key!r}")
        seen.add(section.key)
