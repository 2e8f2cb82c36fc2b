"""Whatever a tool looks like: a denied value never runs, and what was shown is what ran.

The tools are drawn, not written: functions, dataclasses, models, TypedDicts and JSON Schemas, with
defaults, aliases, validators and objects within objects.
"""

import asyncio
import dataclasses
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, cast

from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
)
from typing_extensions import TypedDict

from toolcrib.approval.decision import Approve
from toolcrib.approval.pattern import Equals
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.executor import Executor
from toolcrib.calls.outcome import Outcome
from toolcrib.session.session import Session
from toolcrib.tools.tool import Tool

Style = Literal["function", "dataclass", "model", "typed_dict", "schema"]
ABSENT: Any = object()
NAMES = ("a", "b", "c")


@dataclass(frozen=True)
class Leaf:
    """An argument that is a text or a number. `change` names what its validator does to it."""

    name: str
    key: str
    kind: type[Any]
    change: str
    default: Any
    is_made: bool
    has_choices: bool


@dataclass(frozen=True)
class Branch:
    """An argument that is an object, or a list of them."""

    name: str
    key: str
    inner: "Object"
    is_list: bool


@dataclass(frozen=True)
class Object:
    style: Style
    extra: Literal["forbid", "ignore", "allow"]
    is_by_name: bool
    fields: tuple[Leaf | Branch, ...]


CHANGES: dict[str, list[Any]] = {
    "": [],
    "lower": [StringConstraints(strip_whitespace=True, to_lower=True)],
    "upper": [AfterValidator(lambda text: text.strip().upper())],
    "bump": [AfterValidator(lambda number: number + 1)],
    "double": [BeforeValidator(lambda number: number * 2)],
}
VALUES = {str: [" Prod ", "prod", "PROD", "x"], int: [0, 1, 2, 7]}


@st.composite
def objects(draw: st.DrawFn, styles: tuple[Style, ...], depth: int = 0) -> Object:
    style = draw(st.sampled_from(styles))
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    keys = names
    if style != "schema" and draw(st.booleans()):
        # Swapped names too: the alias of one field may be the name of another.
        keys = tuple(draw(st.permutations((*names, "x", "y", "z"))))[: len(names)]
    fields: list[Leaf | Branch] = []
    for name, key in zip(names, keys, strict=True):
        if depth < 2 and draw(st.integers(0, 3)) == 0:
            inner_styles = (
                ("schema",) if style == "schema" else ("dataclass", "model", "typed_dict")
            )
            inner = draw(objects(inner_styles, depth + 1))
            fields.append(Branch(name, key, inner, draw(st.booleans())))
            continue
        kind = draw(st.sampled_from([str, int]))
        changes = ["", "lower", "upper"] if kind is str else ["", "bump", "double"]
        fields.append(
            Leaf(
                name=name,
                key=key,
                kind=kind,
                change="" if style == "schema" else draw(st.sampled_from(changes)),
                default=draw(st.sampled_from([ABSENT, *VALUES[kind]])),
                is_made=style in ("model", "dataclass") and draw(st.booleans()),
                has_choices=style == "model" and draw(st.booleans()),
            )
        )
    return Object(
        style,
        extra=draw(st.sampled_from(["forbid", "ignore", "allow"]))
        if style == "model"
        else "forbid",
        is_by_name=style == "model" and draw(st.booleans()),
        fields=tuple(fields),
    )


@st.composite
def arguments_of(draw: st.DrawFn, spec: Object) -> dict[str, Any]:
    """Arguments that fit, in any spelling that fits, some with decoys."""
    arguments: dict[str, Any] = {}
    for field in spec.fields:
        spellings = [field.key]
        if spec.is_by_name and all(other.key != field.name for other in spec.fields):
            spellings.append(field.name)
        if isinstance(field, Leaf):
            if field.has_choices:
                spellings.append(f"{field.key}_too")
            if field.default is not ABSENT and draw(st.booleans()):
                continue
            value = draw(st.sampled_from(VALUES[field.kind]))
        else:
            value = draw(arguments_of(field.inner))
            value = [value, draw(arguments_of(field.inner))] if field.is_list else value
        arguments[draw(st.sampled_from(spellings))] = value
    if spec.extra != "forbid" and draw(st.booleans()):
        keys = {field.key for field in spec.fields}
        decoys = [] if spec.is_by_name else [f.name for f in spec.fields if f.name not in keys]
        arguments |= dict.fromkeys([*decoys, "more"], "decoy")
    return arguments


def type_of(field: Leaf | Branch, style: Style) -> tuple[Any, Any]:
    """The annotation of a field, and its default for `Field`."""
    alias: dict[str, Any] = {} if field.key == field.name else {"alias": field.key}
    if isinstance(field, Branch):
        inner = built(field.inner)
        kind: Any = list[inner] if field.is_list else inner
        return Annotated[(kind, Field(**alias))] if alias else kind, ABSENT
    if field.has_choices:
        alias = {"validation_alias": AliasChoices(field.key, f"{field.key}_too")}
    notes = [*CHANGES[field.change], *([Field(**alias)] if alias else [])]
    if style == "typed_dict" and field.default is not ABSENT:
        return NotRequired[Annotated[(field.kind, *notes)] if notes else field.kind], ABSENT
    return Annotated[(field.kind, *notes)] if notes else field.kind, field.default


def built(spec: Object) -> Any:
    """The type that a drawn object describes."""
    members = [(field, *type_of(field, spec.style)) for field in spec.fields]
    match spec.style:
        case "model":
            fields: dict[str, Any] = {}
            for field, kind, default in members:
                is_made = isinstance(field, Leaf) and field.is_made
                given = Field(default_factory=lambda default=default: default)
                fields[field.name] = (
                    kind if default is ABSENT else (kind, given if is_made else default)
                )
            config = ConfigDict(strict=True, extra=spec.extra, populate_by_name=spec.is_by_name)
            return create_model("Drawn", __config__=config, **fields)
        case "typed_dict":
            return TypedDict("Drawn", {field.name: kind for field, kind, _ in members})  # pyright: ignore
        case _:
            ordered = sorted(members, key=lambda member: member[2] is not ABSENT)
            made: list[Any] = []
            for field, kind, default in ordered:
                factory = lambda default=default: default  # noqa: E731
                is_made = isinstance(field, Leaf) and field.is_made
                given = dataclasses.field(default_factory=factory) if is_made else default
                made.append((field.name, kind) if default is ABSENT else (field.name, kind, given))
            return dataclasses.make_dataclass("Drawn", made)


def schema_of(spec: Object) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in spec.fields:
        if isinstance(field, Branch):
            inner = schema_of(field.inner)
            properties[field.key] = {"type": "array", "items": inner} if field.is_list else inner
        else:
            default = {} if field.default is ABSENT else {"default": field.default}
            kind = "string" if field.kind is str else "integer"
            properties[field.key] = {"type": kind, **default}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def tool_of(spec: Object, ran: list[Any]) -> Tool[Any, Any]:
    """The drawn tool; `ran` gets what its handler is called with."""

    async def run(params: Any) -> str:
        ran.append(params)
        return "done"

    async def run_input(input: Any, context: Any) -> str:
        return await run(input)

    async def keywords(**arguments: Any) -> str:
        return await run(arguments)

    run_function: Any = keywords

    match spec.style:
        case "schema":
            schema = schema_of(spec)
            return Tool[Any, Any](
                name="act",
                description="Act.",
                calling="input",
                json_schema=schema,
                handler=run_input,
            )
        case "function":
            parameters = [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=kind,
                    default=inspect.Parameter.empty if default is ABSENT else default,
                )
                for field in spec.fields
                for kind, default in [type_of(field, "function")]
            ]
            setattr(run_function, "__signature__", inspect.Signature(parameters))  # noqa: B010
            return Tool[Any, Any](
                name="act", description="Act.", calling="keywords", handler=run_function
            )
        case _:
            return Tool[Any, Any](
                name="act", description="Act.", params_type=built(spec), handler=run
            )


def effective(spec: Object, params: Any) -> Iterator[tuple[str, str, Any]]:
    """Every value that the handler got, with its place by names and by keys."""
    for field in spec.fields:
        name = field.key if spec.style == "schema" else field.name
        members = cast("dict[str, Any]", params if isinstance(params, dict) else vars(params))
        if name not in members:
            continue
        value: Any = members[name]
        if isinstance(field, Leaf):
            yield f"/{field.name}", f"/{field.key}", value
            continue
        parts: list[Any] = value if field.is_list else [value]
        for index, part in enumerate(parts):
            at = f"/{index}" if field.is_list else ""
            for by_name, by_key, leaf in effective(field.inner, part):
                yield f"/{field.name}{at}{by_name}", f"/{field.key}{at}{by_key}", leaf


async def called(
    spec: Object, arguments: dict[str, Any], policy: Policy | None = None
) -> tuple[Outcome, list[Any], Executor]:
    ran: list[Any] = []
    executor = Executor(Session(), [tool_of(spec, ran)], policy=policy)
    return await executor.call("act", arguments, call_id="c1"), ran, executor


def rule(effect: Any, pointer: str, value: Any) -> Policy:
    return Policy((Rule(effect, "act", arguments={pointer: Equals(value)}),), unmatched="allow")


def plain(value: Any) -> Any:
    """What the handler got, without the drawn classes, which are new for each tool."""
    if isinstance(value, list):
        return [plain(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}  # pyright: ignore
    return value


def at(pointer: str, arguments: Any) -> Any:
    for part in pointer.split("/")[1:]:
        arguments = arguments[int(part) if isinstance(arguments, list) else part]
    return arguments


STYLES: tuple[Style, ...] = ("function", "dataclass", "model", "typed_dict", "schema")


@settings(max_examples=60)
@given(st.data())
def test_a_denied_value_never_runs_and_what_was_shown_is_what_ran(data: st.DataObject) -> None:
    """Security 1, for any tool: a rule on the value that the handler would get denies or asks,
    under the name of the field and under its key; the approver sees that value, and it runs.
    """
    spec = data.draw(objects(STYLES))
    arguments = data.draw(arguments_of(spec))
    note(f"{arguments}")

    async def check() -> None:
        free, ran, _ = await called(spec, arguments)
        # A type without a configuration takes over `populate_by_name`: swapped names may collide.
        assume(free.ok)
        for by_name, by_key, value in effective(spec, ran[0]):
            for pointer in {by_name, by_key}:
                denied, never, _ = await called(spec, arguments, rule("deny", pointer, value))
                assert (denied.ok, never) == (False, []), pointer
            asked, done, executor = await called(spec, arguments, rule("ask", by_name, value))
            assert asked.approval is not None
            assert at(by_key, asked.approval.arguments) == value
            await executor.session.approvals.decide("c1", Approve(), by="jo")
            assert [outcome.ok for outcome in await executor.resume()] == [True]
            assert plain(done) == plain(ran)

    asyncio.run(check())


@settings(max_examples=60)
@given(st.data())
def test_an_allow_rule_sees_the_one_real_value(data: st.DataObject) -> None:
    """A decoy, an alias or a default never makes a call meet an allow rule with another value than
    the one that runs.
    """
    spec = data.draw(objects(STYLES))
    arguments = data.draw(arguments_of(spec))
    candidates = ["decoy", *VALUES[str], *VALUES[int]]
    pointer, allowed = f"/{data.draw(st.sampled_from(spec.fields)).name}", None
    allowed = data.draw(st.sampled_from(candidates))

    async def check() -> None:
        free, ran, _ = await called(spec, arguments)
        assume(free.ok)
        real = {value for name, _, value in effective(spec, ran[0]) if name == pointer}
        allow = Rule("allow", "act", arguments={pointer: Equals(allowed)})
        outcome, _, _ = await called(spec, arguments, Policy((allow,), unmatched="deny"))
        if outcome.ok:
            assert allowed in real

    asyncio.run(check())
