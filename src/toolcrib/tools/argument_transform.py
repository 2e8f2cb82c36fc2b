"""Argument transforms: callers give other arguments than the handler takes.

Fixed arguments are filled in, renamed ones are put back under their own names, and hidden ones are
left to the handler's default. All of it happens before validation, so that policies, approvers and
records have the arguments that the handler gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from toolcrib.errors import InvalidTool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentTransform:
    """How the arguments of callers become those of the handler.

    `fixed` has the values that callers cannot choose. Of a value in `secrets`, `fixed` has the text
    that stands for it in records; whoever runs the tool fills the value in. `renamed` has the names
    that callers use by the handler's names, `hidden` the arguments that nobody gives, and
    `described` other descriptions.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    secrets: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, hash=False)
    renamed: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    hidden: tuple[str, ...] = ()
    described: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    def __post_init__(self) -> None:
        for name in ("fixed", "secrets", "renamed", "described"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def unseen(self) -> frozenset[str]:
        """The arguments that callers are not told of."""
        return frozenset({*self.fixed, *self.hidden})

    def shown_schema(self, tool: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The schema that callers see. Raises `InvalidTool` when the transform does not fit."""
        self._check(tool, schema)
        properties = cast("dict[str, Any]", schema.get("properties", {}))
        shown: dict[str, Any] = {}
        for name, member in properties.items():
            if name not in self.unseen:
                shown[self.renamed.get(name, name)] = self._described(name, member)
        required = [
            self.renamed.get(name, name)
            for name in schema.get("required", ())
            if name not in self.unseen
        ]
        changed = {"properties": shown, "required": required}
        kept = {key: value for key, value in schema.items() if key not in changed}
        return {**kept, **{key: value for key, value in changed.items() if value or key in schema}}

    def _described(self, name: str, schema: Any) -> Any:
        if name not in self.described or not isinstance(schema, dict):
            return schema
        return {**cast("dict[str, Any]", schema), "description": self.described[name]}

    def _check(self, tool: str, schema: Mapping[str, Any]) -> None:
        for fault in self._faults(schema):
            raise InvalidTool(f"tool {tool!r}: {fault}")

    def _faults(self, schema: Mapping[str, Any]) -> Iterator[str]:
        properties = cast("dict[str, Any]", schema.get("properties", {}))
        named = [*self.fixed, *self.renamed, *self.hidden, *self.described]
        for name in dict.fromkeys(named):
            if name not in properties:
                yield f"there is no argument {name!r} to transform; it has {_list(properties)}"
        for name in self.unseen.intersection((*self.renamed, *self.described)):
            yield f"the argument {name!r} is not shown, so it cannot be renamed or described"
        for name in set(self.fixed).intersection(self.hidden):
            yield f"the argument {name!r} is fixed, so it is hidden already"
        for name in self.hidden:
            if name in schema.get("required", ()):
                yield f"the argument {name!r} is required; give it a fixed value to hide it"
        others = set(properties) - set(self.renamed)
        for name in self.renamed.values():
            if name in others or list(self.renamed.values()).count(name) > 1:
                yield f"there are two arguments {name!r}; choose another name"


def _list(names: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, names)) or "none"
