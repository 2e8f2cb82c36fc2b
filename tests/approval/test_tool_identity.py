"""For any change of a tool's configuration, no earlier grant or approval covers it.

The configurations are drawn from the fields of the dataclasses, so that a new option that is not
part of the identity fails here.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import toolcrib.toolkits
import toolcrib.tools
from tests.sandbox import handlers
from toolcrib.approval.decision import Actor
from toolcrib.approval.grant import Grant
from toolcrib.approval.rule import Subject
from toolcrib.errors import InvalidTool, UsageError
from toolcrib.host_tools import HostToolDefinition
from toolcrib.mcp_client import HttpServerConfig, StdioServerConfig
from toolcrib.mcp_client.config import server_identity
from toolcrib.mcp_client.load import ServerLimits
from toolcrib.mcp_client.results import RemoteHandler
from toolcrib.sandbox import SandboxOptions
from toolcrib.tools.computer.types import ComputerConfig
from toolcrib.tools.prepared_tool import PreparedTool, prepare
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.tool import Tool

_BRIEF = settings(
    max_examples=6, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


def option_classes() -> list[type[Any]]:
    """Every dataclass of options: those of the hosted kinds, the toolkits, sandboxes and servers,
    and whatever their fields hold.
    """
    roots: list[type[Any]] = [SandboxOptions, StdioServerConfig, HttpServerConfig]
    for package in (toolcrib.tools, toolcrib.toolkits):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.ispkg:
                named = vars(importlib.import_module(f"{module.name}.types")).values()
                classes = [each for each in named if isinstance(each, type)]
                roots += [cls for cls in classes if is_dataclass(cls) and "kind" in vars(cls)]
    found: dict[type[Any], None] = {}
    while roots:
        cls = roots.pop(0)
        if cls not in found:
            found[cls] = None
            hints = get_type_hints(cls)
            roots += [inner for field in fields(cls) for inner in within(hints[field.name])]
    return list(found)


def within(annotation: Any) -> Iterator[type[Any]]:
    """The dataclasses in an annotation."""
    if isinstance(annotation, type) and is_dataclass(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from within(inner)


URLS = st.sampled_from(["https://good.example/mcp", "https://evil.example/mcp"])
DOMAINS = st.lists(st.sampled_from(["a.example", "b.example", "c.example"]), max_size=2).map(tuple)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "allowed": DOMAINS,
    "allowed_domains": st.sampled_from([("a.example",), ("a.example", "b.example")]),
    "blocked": DOMAINS,
    "city": st.sampled_from(["Paris", "Rome"]),
    "domain": st.sampled_from(["a.example", "x.a.example"]),
    "country_code": st.sampled_from(["FR", "IT"]),
    "client_metadata_url": URLS,
    "frame_duration_ms": st.sampled_from([20, 40]),
    "image_url": URLS,
    "issuer": URLS,
    "operator": st.sampled_from(["eq", "ne", "in", "and", "or"]),
    "prefix": st.sampled_from(["a_", "b_"]),
    "readable": st.lists(st.sampled_from([Path("/etc"), Path("/usr")]), max_size=2).map(tuple),
    "root": st.sampled_from(["/srv/a", "/srv/b"]),
    "server_url": URLS,
    "size": st.sampled_from(["auto", "1536x1024"]),
    "token_url": URLS,
    "timezone": st.sampled_from(["Europe/Paris", "Europe/Rome"]),
    "url": URLS,
    "value": st.sampled_from(["1", 1, 2, True, ("1",), (1,)]),
}


TOGETHER = (ComputerConfig,)
"""Options that are given all together."""
NEVER_NONE: dict[str, st.SearchStrategy[Any]] = {
    "environment": st.sampled_from(["browser", "mac"]),
    "display_width": st.sampled_from([1280, 1024]),
    "display_height": st.sampled_from([800, 768]),
}


def values(name: str, annotation: Any) -> st.SearchStrategy[Any]:
    """Values for a field. One of a type that is not known here fails, and has to be added."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if name in NEVER_NONE:
        return NEVER_NONE[name]
    if origin in (Union, types.UnionType):
        return st.one_of([values(name, each) for each in inner])
    if annotation is type(None):
        return st.none()
    if name == "value" and annotation is str:
        return st.sampled_from(["alpha", "beta"])
    if name in BY_NAME and annotation is not bool and not is_dataclass(annotation):
        return BY_NAME[name]
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple:
        return st.lists(values("", inner[0]), max_size=2).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(st.sampled_from(["X-A", "X-B"]), values("", str), max_size=2)
    if isinstance(annotation, type) and is_dataclass(annotation):
        return options(annotation)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        bytes: st.sampled_from([b"a", b"b"]),
        datetime: st.sampled_from([datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2, 3)]),
        float: st.sampled_from([0.25, 0.5, 1.0]),
        int: st.integers(1, 3),
        str: st.sampled_from(["alpha", "beta", "3"]),
    }
    return simple[annotation]


@functools.cache
def options(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Valid instances of a dataclass of options."""
    hints = get_type_hints(cls)

    @st.composite
    def draw_options(draw: st.DrawFn) -> Any:
        chosen = {
            field.name: draw(st.deferred(lambda n=field.name: values(n, hints[n])))
            for field in fields(cls)
            if cls in TOGETHER or is_needed(field) or draw(st.integers(0, 3)) == 0
        }
        return made(lambda: cls(**chosen))

    return draw_options()


def is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def made(make: Callable[[], Any]) -> Any:
    """What `make` returns, unless the options do not go together."""
    try:
        return make()
    except (InvalidTool, UsageError):
        assume(False)


def bound(value: Any) -> Any:
    """What decisions about a server's tools are bound to: not to whom they are shown, what was
    pinned of them, and how much the server is asked to bear.
    """
    if not isinstance(value, StdioServerConfig | HttpServerConfig):
        return value
    terms = replace(value.terms, visible_to=None, pins=None, limits=ServerLimits())
    return replace(value, terms=terms)


def tool_with(value: Any) -> PreparedTool:
    """A tool with these options."""
    match value:
        case SandboxOptions():
            return prepare(
                HostToolDefinition(
                    name="tried",
                    description="Is tried.",
                    parameters={"type": "object"},
                    handler=handlers.add,
                    sandbox=value,
                )
            )
        case StdioServerConfig() | HttpServerConfig():
            identity = server_identity(value, None, None)
            handler: Any = RemoteHandler(typing.cast("Any", None), "tried", "", identity)
            return prepare(
                declared(handler=handler, calling="input", json_schema={"type": "object"})
            )
        case _:
            return prepare(
                HostedTool[Any](
                    kind=getattr(value, "kind", "tried"),
                    name="tried",
                    description="Is tried.",
                    config=value,
                )
            )


def declared(**given: Any) -> Tool[Any, Any]:
    chosen: dict[str, Any] = {"name": "tried", "description": "Is tried.", **given}
    return Tool[Any, Any](**chosen)


def is_covered(before: PreparedTool, now: PreparedTool) -> bool:
    """Whether a grant for the tool before, or an approval of its call, covers a call of now."""
    grant = Grant(
        grant_id="g",
        tool_id=before.ref.id,
        tool_digest=before.ref.digest,
        scope="session",
        session_id="s",
        created_by=Actor("person", "ann"),
        created_at=0.0,
    )
    subject = Subject(tool=now.ref, arguments={}, is_read_only=False, requires_approval=True)
    is_granted = grant.covers(subject, session_id="s", now=1.0)
    assert is_granted == (before.digest_prefix == now.digest_prefix)
    return is_granted


CASES = [(cls, field.name) for cls in option_classes() for field in fields(cls)]


def test_all_options_are_drawn() -> None:
    """Every hosted kind, toolkit, sandbox and server is among the cases."""
    names = {cls.__name__ for cls, _ in CASES}

    assert {
        "ApplyPatchConfig",
        "AutoContainer",
        "CodeInterpreterConfig",
        "ContainerShellConfig",
        "DomainFilter",
        "ExistingContainer",
        "FileSearchConfig",
        "HandlerShellConfig",
        "HttpServerConfig",
        "ImageGenerationConfig",
        "McpConfig",
        "MemoryConfig",
        "MountTerms",
        "NetworkPolicy",
        "SandboxLimits",
        "SandboxOptions",
        "StdioServerConfig",
        "WebFetchConfig",
        "WebSearchConfig",
    } <= names


@pytest.mark.parametrize(("cls", "field"), CASES, ids=lambda each: getattr(each, "__name__", each))
@given(data=st.data())
@_BRIEF
def test_another_value_of_an_option_is_another_tool(
    cls: type[Any], field: str, data: st.DataObject
) -> None:
    """No grant or approval for a configuration covers one that differs in a single field."""
    before = data.draw(options(cls))
    other = data.draw(values(field, get_type_hints(cls)[field]))
    now = made(lambda: replace(before, **{field: other}))
    assume(bound(now) != bound(before))
    # With an account, decisions are bound to it in place of the credentials.
    assume(field not in getattr(cls, "credentials", ()) or now.account is None)

    assert not is_covered(tool_with(before), tool_with(now))


@pytest.mark.parametrize("cls", option_classes(), ids=lambda cls: cls.__name__)
@given(data=st.data())
@_BRIEF
def test_the_same_options_are_the_same_tool(cls: type[Any], data: st.DataObject) -> None:
    """Made again with equal options, as another process does, a tool is covered."""
    before = data.draw(options(cls))
    again = replace(before)

    assert is_covered(tool_with(before), tool_with(again))


class Handler:
    """A handler with a setting."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._cache: list[str] = []

    def __call__(self) -> str:
        return self._root

    def method(self) -> str:
        return self._root + "!"


@dataclass(frozen=True)
class FrozenHandler:
    """A handler with a setting that cannot change."""

    limit: int

    def __call__(self) -> int:
        return self.limit


def closure(root: str | int) -> Callable[[], object]:
    def handler() -> object:
        return root

    return handler


def with_default(root: str) -> Callable[[], object]:
    def handler(_root: str = root) -> object:
        return _root

    return handler


def plain(root: str = "a") -> str:
    return root


def other(root: str = "a") -> str:
    return root + "!"


HANDLERS: dict[str, Callable[[], Any]] = {
    "plain": lambda: plain,
    "other": lambda: other,
    "partial a": lambda: functools.partial(plain, "a"),
    "partial b": lambda: functools.partial(plain, "b"),
    "partial by name": lambda: functools.partial(plain, root="b"),
    "closure a": lambda: closure("a"),
    "closure b": lambda: closure("b"),
    "closure 1": lambda: closure(1),
    "closure '1'": lambda: closure("1"),
    "default a": lambda: with_default("a"),
    "default b": lambda: with_default("b"),
    "object a": lambda: Handler("a"),
    "object b": lambda: Handler("b"),
    "method a": lambda: Handler("a").method,
    "method b": lambda: Handler("b").method,
    "frozen 1": lambda: FrozenHandler(1),
    "frozen 2": lambda: FrozenHandler(2),
    "none": lambda: None,
}

DECLARATIONS = st.fixed_dictionaries(
    {"handler": st.sampled_from(sorted(HANDLERS))},
    optional={
        "description": st.sampled_from(["Is tried.", "Is tried, and sends your keys."]),
        "version": st.sampled_from(["1.0.0", "1.0.1", "2.0.0"]),
        "source": st.sampled_from(["python", "host"]),
        "requires_approval": st.booleans(),
        "is_idempotent": st.booleans(),
        "is_read_only": st.booleans(),
        "timeout": st.sampled_from([None, 1.0, 2.0]),
        "uses": st.sampled_from([(), ("a",), ("a", "b"), ("a, b",)]),
        "output_schema": st.sampled_from([None, {"type": "string"}]),
    },
)


def tool_declared(given: dict[str, Any]) -> PreparedTool:
    made = declared(**{**given, "handler": None})
    handler = HANDLERS[given["handler"]]()
    return prepare(replace(made, handler=handler))


@given(before=DECLARATIONS, now=DECLARATIONS)
@settings(max_examples=200)
def test_another_declaration_or_handler_is_another_tool(
    before: dict[str, Any], now: dict[str, Any]
) -> None:
    """Version, place, description, rules and code: whatever differs is not covered, and what is
    the same is.
    """
    default = {field.name: field.default for field in fields(Tool)}
    default["description"] = "Is tried."
    is_same = {**default, **before} == {**default, **now}

    assert is_covered(tool_declared(before), tool_declared(now)) == is_same
