"""Sections: the pieces a prompt is made of, each with its text and its tools."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from string import Template
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

from toolcrib.errors import InvalidPrompt
from toolcrib.tools.hosted import HostedTool
from toolcrib.tools.prepared import as_tool
from toolcrib.tools.tool import Tool
from toolcrib.tools.type_arguments import TypeArguments

P = TypeVar("P")
Visibility = Literal["full", "summary"]
Enabled = Callable[[Any], bool]
"""Says, from the section's params (None when it has none), whether it takes part."""

_KEY = re.compile(r"[a-z0-9_-]{1,64}")


class Section(TypeArguments, ABC, Generic[P]):
    """A part of a prompt. `Section[Params]` names the dataclass its text is filled from.

    With `visibility="summary"` only the summary is rendered and no tool of the section or of its
    children is offered.
    """

    _type_fields: ClassVar[tuple[str, ...]] = ("params_type",)

    def __init__(
        self,
        *,
        title: str,
        key: str,
        children: Sequence[Section[Any]] = (),
        enabled: Enabled | None = None,
        tools: Sequence[Any] = (),
        hosted_tools: Sequence[HostedTool[Any]] = (),
        visibility: Visibility = "full",
        summary: str | None = None,
        accepts_overrides: bool = True,
        params_type: type[P] | None = None,
    ) -> None:
        self.title = _check_title(title)
        self.key = _check_key(key)
        self.children = tuple(children)
        self.enabled = enabled
        self.visibility: Visibility = visibility
        self.summary = summary
        self.accepts_overrides = accepts_overrides
        self.params_type = _check_params_type(key, params_type)
        self._tools = (*(as_tool(tool) for tool in tools), *hosted_tools)
        if visibility not in ("full", "summary"):
            raise InvalidPrompt(f"section {key!r}: visibility is 'full' or 'summary'")
        if visibility == "summary" and not summary:
            raise InvalidPrompt(f"section {key!r} shows its summary but has none; give `summary`")
        _check_children(key, self.children)

    @abstractmethod
    def body(self, values: Mapping[str, Any]) -> str:
        """The text under the title, filled from `values`."""

    @property
    @abstractmethod
    def source(self) -> str:
        """What an override replaces: the text before it is filled."""

    def tools(self) -> tuple[Tool[Any, Any], ...]:
        """The tools this section offers, wherever they run."""
        mine = self._tools
        return (*mine, *(tool for tool in self.hosted_tools() if tool not in mine))

    def hosted_tools(self) -> tuple[HostedTool[Any], ...]:
        """The provider-run tools this section offers; override it to compute them."""
        return tuple(
            cast("HostedTool[Any]", tool) for tool in self._tools if isinstance(tool, HostedTool)
        )

    def is_enabled(self, params: Any) -> bool:
        """Whether the section takes part, given its params."""
        return self.enabled is None or bool(self.enabled(params))


class MarkdownSection(Section[P]):
    """A section whose text is a template: `$name` is filled from the params, `$$` is a dollar."""

    def __init__(self, *, template: str, **options: Any) -> None:
        super().__init__(**options)
        self.template = template
        self.placeholders = _placeholders(self.key, template)
        self._check_placeholders()

    @property
    def source(self) -> str:
        """The template."""
        return self.template

    def body(self, values: Mapping[str, Any]) -> str:
        """The template, filled."""
        return fill(self.key, self.template, values)

    def _check_placeholders(self) -> None:
        if self.params_type is None:
            return
        known = {field.name for field in fields(self.params_type)}
        unknown = sorted(self.placeholders - known)
        if unknown:
            raise InvalidPrompt(
                f"section {self.key!r}: the template uses ${unknown[0]}, but "
                f"{self.params_type.__name__} has only: {', '.join(sorted(known)) or 'no fields'}"
            )


def fill(key: str, template: str, values: Mapping[str, Any]) -> str:
    """A template with its placeholders replaced; values are not templates themselves."""
    try:
        return Template(template).substitute(values)
    except KeyError as missing:
        raise InvalidPrompt(
            f"section {key!r}: no value for ${missing.args[0]}; bind it: "
            f"prompt.bind({missing.args[0]}=...)"
        ) from None


def _placeholders(key: str, template: str) -> frozenset[str]:
    found = Template(template)
    if not found.is_valid():
        raise InvalidPrompt(
            f"section {key!r}: the template has a '$' that starts no name; write '$$' for a dollar"
        )
    return frozenset(found.get_identifiers())


def _check_title(title: str) -> str:
    if not title.strip() or "\n" in title:
        raise InvalidPrompt(f"a section's title is one line of text, not {title!r}")
    return title


def _check_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise InvalidPrompt(f"a section's key must match {_KEY.pattern}; {key!r} does not")
    return key


def _check_params_type(key: str, params_type: Any) -> Any:
    if params_type is not None and not (
        isinstance(params_type, type) and is_dataclass(params_type)
    ):
        raise InvalidPrompt(f"section {key!r}: params must be a dataclass, not {params_type!r}")
    return params_type


def _check_children(key: str, children: Sequence[Section[Any]]) -> None:
    seen: set[str] = set()
    for child in children:
        if child.key in seen:
            raise InvalidPrompt(f"section {key!r} has two children with the key {child.key!r}")
        seen.add(child.key)
