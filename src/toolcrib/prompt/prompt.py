"""`Prompt`: sections with a typed answer, rendered before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Generic

from toolcrib.errors import InvalidPrompt
from toolcrib.prompt.attachments import Attachment, check_attachment
from toolcrib.prompt.output import check_output_type, output_schema
from toolcrib.prompt.overrides import Overrides
from toolcrib.prompt.rendered_prompt import O, RenderedPrompt, render
from toolcrib.prompt.section import Section, check_siblings, located, walk
from toolcrib.tools.type_arguments import TypeArguments, type_argument

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

    def render(self) -> RenderedPrompt[O]:
        """Return text, tools and output schema. Raises `InvalidPrompt` that names the fault."""
        with located(f"prompt {self.name!r}"):
            return render(self, None if self._is_plain else output_schema(self.output_type))

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
