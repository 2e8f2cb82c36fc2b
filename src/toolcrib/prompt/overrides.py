"""Texts put in the place of a prompt's own, each bound to what it was written to replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from toolcrib.errors import InvalidPrompt


def digest_of(text: str) -> str:
    """The digest that an override of `text` must carry."""
    return sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Override:
    """`text` stands in for the text whose digest is `replaces`, and for no other."""

    text: str
    replaces: str


@dataclass(frozen=True, slots=True)
class Overrides:
    """Overrides of section texts by path (`task/details`) and of tool descriptions by name."""

    sections: Mapping[str, Override] = field(default_factory=dict[str, Override])
    tools: Mapping[str, Override] = field(default_factory=dict[str, Override])

    def section(self, path: str, source: str, *, accepts: bool) -> str:
        """The text of a section, overridden if there is an override that fits."""
        return _applied(self.sections.get(path), f"section {path!r}", source, accepts)

    def tool(self, name: str, description: str, *, accepts: bool) -> str:
        """The description of a tool, overridden if there is an override that fits."""
        return _applied(self.tools.get(name), f"tool {name!r}", description, accepts)

    def check_used(self, sections: set[str], tools: set[str]) -> None:
        """Refuse overrides of what is not there: a misspelt path must not go unnoticed."""
        lost = sorted({*self.sections} - sections) or sorted({*self.tools} - tools)
        if lost:
            raise InvalidPrompt(f"there is an override of {lost[0]!r}, which the prompt has not")


def _applied(override: Override | None, what: str, original: str, accepts: bool) -> str:
    if override is None:
        return original
    if not accepts:
        raise InvalidPrompt(f"{what} does not accept overrides")
    if override.replaces != digest_of(original):
        raise InvalidPrompt(
            f"{what} has changed since its override was written; "
            f"look at it again and bind the override to {digest_of(original)}"
        )
    return override.text
