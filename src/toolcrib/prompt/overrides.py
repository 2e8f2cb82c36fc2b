"""Overrides: texts that replace those of a prompt, each bound to the digest of the original."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType

from toolcrib.errors import InvalidPrompt


def digest_of(text: str) -> str:
    """Return the digest that an override of `text` must carry."""
    return sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Override:
    """`text` replaces the text whose digest is `replaces`, and no other."""

    text: str
    replaces: str


@dataclass(frozen=True, slots=True)
class Overrides:
    """Overrides of section texts by path (`task/details`) and of tool descriptions by name."""

    sections: Mapping[str, Override] = field(default_factory=dict[str, Override], hash=False)
    tools: Mapping[str, Override] = field(default_factory=dict[str, Override], hash=False)

    def __post_init__(self) -> None:
        for what in ("sections", "tools"):
            overrides = dict(getattr(self, what))
            for name, override in overrides.items():
                if not isinstance(override, Override):
                    raise InvalidPrompt(
                        f"{what}[{name!r}] must be an Override, with the digest of what it "
                        f"replaces, not {type(override).__name__}"
                    )
            object.__setattr__(self, what, MappingProxyType(overrides))

    def section(self, path: str, source: str, *, accepts: bool) -> str:
        """Return the text that replaces that of an overridden section."""
        return _checked(self.sections[path], "the section", source, accepts)

    def tool(self, name: str, description: str, *, accepts: bool) -> str:
        """Return the description that replaces that of an overridden tool."""
        return _checked(self.tools[name], f"tool {name!r}", description, accepts)

    def check_known(self, sections: Collection[str], tools: Collection[str]) -> None:
        """Refuse overrides of sections and tools that do not exist: a misspelt name must not go
        unnoticed.
        """
        for what, overrides, known in (
            ("section", self.sections, sections),
            ("tool", self.tools, tools),
        ):
            lost = sorted(set(overrides).difference(known))
            if lost:
                raise InvalidPrompt(
                    f"there is an override of {what} {lost[0]!r}, but no such {what}; "
                    f"there are: {', '.join(sorted(known)) or 'none'}"
                )


def _checked(override: Override, what: str, original: str, accepts: bool) -> str:
    if not accepts:
        raise InvalidPrompt(f"{what} does not accept overrides")
    if override.replaces != digest_of(original):
        raise InvalidPrompt(
            f"{what} has changed since its override was written; "
            f"look at it again and bind the override to {digest_of(original)}"
        )
    return override.text
