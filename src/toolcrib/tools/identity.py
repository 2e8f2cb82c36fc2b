"""The identity of a tool: what decisions about its calls are bound to.

The digest covers everything that says what a call of the tool does: source, name, version, place,
description, schemas, rules, configuration and the handler's code. The parts say the same in words,
so that people can be shown what changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast, runtime_checkable

from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.tools.configuration import Part
    from toolcrib.tools.tool import Tool

Place = Literal["local", "sandbox", "client", "provider"]
"""Where a call runs: this process, a sandbox, the connected client, the model's provider."""

BindTo = Literal["code", "version"]
"""What a decision is bound to besides the declaration and the configuration of a tool: the code of
its handler, or only its version, for a host that gives every deployment of other code another
version."""


@dataclass(frozen=True, slots=True)
class ToolRef:
    """A tool as events, approvals and grants refer to it. `digest` is that of its identity: a tool
    with another digest is another tool, whatever it is called.
    """

    name: str
    source: str
    version: str
    digest: str
    place: Place

    @property
    def id(self) -> str:
        """`source/name`, which policies and grants use, so that a tool of the same name is not
        covered.
        """
        return f"{self.source}/{self.name}"


@dataclass(frozen=True, slots=True)
class ToolIdentity:
    """The digest of a tool, and the parts that it covers, by name. The parts hold no secret."""

    digest: str
    parts: Mapping[str, str]
    is_whole: bool = True
    """False when a handler of the same digest may still do something else: it has state, or code
    that cannot be read."""
    bind_to: BindTo = "code"

    def numbered(self, registration: int) -> ToolIdentity:
        """The identity of another handler that cannot be told from this one."""
        import hashlib

        digest = hashlib.sha256(f"{self.digest}\n{registration}".encode()).hexdigest()
        parts = {**self.parts, "registration": str(registration)}
        return ToolIdentity(digest, parts, is_whole=False, bind_to=self.bind_to)


@dataclass(frozen=True, slots=True)
class HandlerIdentity:
    """What a handler says of itself: its configuration, and the function that does the work, if
    that is in Python.
    """

    configuration: Mapping[str, object]
    code: object | None = None


@runtime_checkable
class Identified(Protocol):
    """A handler whose work is done elsewhere, in a sandbox or by a server, and that can say where
    and by what.
    """

    def handler_identity(self) -> HandlerIdentity:
        """Return what the handler stands for."""
        ...


def canonical_json(value: Any) -> bytes:
    """Encode `value` as JSON in one exact form: sorted keys, no spaces, UTF-8.

    Accepts what pydantic accepts (dataclasses, datetimes, enums). Raises `UsageError` for a value
    that JSON cannot express.
    """
    from pydantic_core import PydanticSerializationError, from_json, to_json

    try:
        # Through JSON and back: keys become text before they are sorted.
        plain = from_json(to_json(value, inf_nan_mode="constants"), cache_strings="keys")
        text = json.dumps(
            plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
    except (PydanticSerializationError, ValueError) as error:
        raise UsageError(f"this value cannot be written as JSON: {error}") from error
    return text.encode("utf-8")


_RULES: Final = (
    "requires_approval",
    "is_idempotent",
    "is_read_only",
    "one_at_a_time",
    "timeout",
    "uses",
)
"""The rules of a tool that say how its calls are decided, repeated and run."""

_COVERED: Final = frozenset(
    {"name", "source", "version", "description", "json_schema", "output_schema", "params_type"}
)
UNBOUND: Final = frozenset(
    {
        "result_type",
        "examples",
        "accepts_overrides",
        "category",
        "max_result_chars",
        "cut",
        "deprecated",
        "approval_metadata",
        "available_when",
        "instruction",
        "requires",
        "calling",
        "visible_to",
    }
)
"""The fields of a tool that no decision is bound to: how it is presented to models and people."""


def identity_of(
    tool: Tool[Any, Any], schema: Mapping[str, Any], *, bind_to: BindTo = "code"
) -> ToolIdentity:
    """Return the identity of a tool whose arguments have this schema."""
    if bind_to not in ("code", "version"):
        raise UsageError(f"bind_to must be 'code' or 'version', not {bind_to!r}")
    is_whole = True
    parts = dict(_declared(tool, schema))
    parts.update(_configured(tool, bind_to))
    handler = tool.handler
    said = handler.handler_identity() if isinstance(handler, Identified) else None
    if said is not None:
        parts.update(_parts_of(said.configuration))
    worker = handler if said is None else said.code
    if worker is not None and bind_to == "code":
        from toolcrib.tools.configuration import Part
        from toolcrib.tools.handler_code import code_of

        code = code_of(worker)
        is_whole = code.is_whole
        parts["code"] = Part(code.name, code.digest)
        if code.values is not None:
            parts["handler_values"] = Part("set", code.values)
    exact = {name: [part.type, part.whole] for name, part in parts.items()}
    # Some commands only need the types of this module.
    import hashlib

    digest = hashlib.sha256(json.dumps(exact, sort_keys=True).encode()).hexdigest()
    texts = {name: part.text for name, part in parts.items()}
    return ToolIdentity(digest, texts, is_whole, bind_to)


def _declared(tool: Tool[Any, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, Part]]:
    from toolcrib.tools.configuration import Part, configuration, part_of

    yield "source", part_of(tool.source)
    yield "name", part_of(tool.name)
    yield "version", part_of(tool.version)
    yield "place", part_of(tool.place)
    yield "description", part_of(tool.description)
    yield "arguments", Part(_summary(schema), canonical_json(schema).decode())
    if tool.output_schema is not None:
        output = tool.output_schema
        yield "output", Part(_summary(output), canonical_json(output).decode())
    if tool.argument_transform is not None and tool.json_schema is not None:
        # Callers see another schema than the handler's.
        own = tool.json_schema
        yield "handler_arguments", Part(_summary(own), canonical_json(own).decode())
    for rule in _RULES:
        value = getattr(tool, rule)
        if value:
            yield from configuration(rule, value)


def _configured(tool: Tool[Any, Any], bind_to: BindTo) -> Iterator[tuple[str, Part]]:
    """The fields that a kind of tool has besides those of every tool: provider, options, hooks."""
    from toolcrib.tools.configuration import configuration, is_default

    for field in fields(tool):
        name, value = field.name, getattr(tool, field.name)
        is_other = name in _COVERED or name in _RULES or name in UNBOUND or name == "handler"
        is_code = callable(value) and bind_to == "version"
        if not is_other and not is_code and not is_default(field, value):
            yield from configuration(name, value)


def _parts_of(settings: Mapping[str, object]) -> Iterator[tuple[str, Part]]:
    from toolcrib.tools.configuration import configuration

    for name, value in settings.items():
        yield from configuration(name, value)


def _summary(schema: Mapping[str, Any]) -> str:
    """The arguments of a schema by name, those that may be left out with a question mark."""
    from toolcrib.tools.configuration import part_of

    properties: Any = schema.get("properties")
    required: Any = schema.get("required")
    names = list(cast("Mapping[str, Any]", properties)) if isinstance(properties, Mapping) else []
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    shown = [name if name in needed else f"{name}?" for name in names]
    return part_of(", ".join(shown) or "none").shown


_MAX_CHANGES: Final = 20
_ORDER: Final = ("source", "name", "version", "place", "sandbox", "code", "description")


def changes_between(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    """Say in plain words what differs between the parts of two tools, the weightiest first.

    Parts that say the same although the digests differ are no proof that nothing changed, so the
    answer is never empty.
    """
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    names.sort(key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    lines = [_change(name, old.get(name), new.get(name)) for name in names if old]
    if len(lines) > _MAX_CHANGES:
        lines[_MAX_CHANGES - 1 :] = [f"and {len(lines) - _MAX_CHANGES + 1} more"]
    return tuple(lines) or ("something changed that cannot be shown",)


def _change(name: str, old: str | None, new: str | None) -> str:
    off = "off" if "on" in (old, new) else "not set"
    before, after = old or off, new or off
    bare_before, bare_after = _bare(before), _bare(after)
    if name in ("code", "handler_values") and bare_before == bare_after:
        return f"{name} changed"
    if bare_before == bare_after:
        return f"{name} changed, in the part that is not shown: {bare_after}"
    return f"{name}: {bare_before} -> {bare_after}"


def _bare(text: str) -> str:
    """A part without its short digest."""
    shown, _, digest = text.rpartition(" [")
    return shown if shown and len(digest) == 13 and digest.endswith("]") else text
