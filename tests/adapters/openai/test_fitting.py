"""Declared types are held to what a provider's calls tell, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Optional

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench
from tests.adapters.openai.scripted_provider import Json, message, response
from toolcrib import NativeTool, PromptEvaluationError, ProviderTool, Session, ToolInvoked
from toolcrib.adapters.openai.adapter import default_client_codecs, default_codecs
from toolcrib.adapters.type_fit import arguments_of, misfit
from toolcrib.testing import Recorder
from toolcrib.toolkits.apply_patch import ApplyPatchConfig, PatchParams
from toolcrib.tools.file_search import FileSearchHit
from toolcrib.tools.shell import HandlerShellConfig, ShellParams, ShellResult
from toolcrib.tools.web_search import WebSearchAction


@dataclass(frozen=True)
class Told:
    text: str
    number: int | None = None
    names: tuple[str, ...] = ()
    kind: Literal["a", "b"] = "a"
    hits: tuple[FileSearchHit, ...] = ()
    facts: Mapping[str, Any] | None = None
    anything: Any = None
    span: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        return len(self.text)


def with_field(name: str, hint: Any) -> type[Any]:
    """A type with one field that must be filled."""
    return dataclass(type("Wanted", (), {"__annotations__": {name: hint}}))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("text", str),
        ("text", str | None),
        ("text", Any),
        ("text", Path),
        ("number", int | None),
        ("number", Optional[float]),  # noqa: UP045
        ("names", tuple[str, ...]),
        ("names", list[str]),
        ("kind", Literal["b", "a"]),
        ("kind", str),
        ("hits", list[FileSearchHit]),
        ("hits", tuple[Any, ...]),
        ("facts", dict[str, Any] | None),
        ("anything", int),
        ("span", tuple[int, int] | None),
        ("size", int),
        ("raw", dict[str, Any]),
        ("payload", dict[str, object]),
    ],
)
def test_a_type_fits_that_takes_all_that_is_told(name: str, hint: Any) -> None:
    """N15: types need not be the same, if every value finds its place."""
    assert misfit(with_field(name, hint), Told) is None


@pytest.mark.parametrize(
    ("name", "hint", "text"),
    [
        ("text", int, "'text' must take 'text' and the like, but: Input should be a valid integer"),
        ("number", int, "'number' must take None and the like, but: Input should be a valid int"),
        ("number", str | None, "'number' must take 1 and the like"),
        ("names", str, r"'names' must take \('text',\) and the like"),
        ("kind", Literal["a"], "'kind' must take 'b' and the like"),
        ("hits", list[str], r"'hits' must take \(FileSearchHit"),
        ("facts", dict[str, Any], "'facts' must take None"),
        ("span", tuple[int, int, int] | None, r"'span' must take \(1, 1\)"),
        ("size", str, "'size' must take 1 "),
        ("raw", str, r"'raw' must take \{'type': 'call'\}"),
    ],
)
def test_a_type_does_not_fit_that_would_refuse_what_is_told(
    name: str, hint: Any, text: str
) -> None:
    """N15: the field is named, and what it would have to take."""
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(misfit(with_field(name, hint), Told))


def test_the_shipped_types_fit_themselves() -> None:
    """N15, H3: the check refuses nobody who declares what the codec tells."""
    codecs: list[Any] = list(default_codecs().values())
    told = [each for codec in codecs for each in (codec.params_type, codec.result_type) if each]

    assert told
    assert [misfit(each, each) for each in told] == [None for _ in told]


@dataclass(frozen=True)
class Search:
    queries: list[str]
    url: str | None = None


@dataclass(frozen=True)
class Wrong:
    queries: str


@dataclass(frozen=True)
class Found:
    payload: dict[str, object]


def refused(*tools: Any) -> PromptEvaluationError:
    """The error that these tools end a prompt with, before any request."""
    with bench() as (adapter, provider), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(*tools))
    assert (caught.value.phase, provider.requests) == ("render", [])
    return caught.value


def test_a_type_that_cannot_hold_what_is_told_is_refused_at_render() -> None:
    """N15: a wrong type is told before anything is sent, not found in the record afterwards."""
    error = refused(NativeTool[Wrong, Found](name="web_search", description="Search."))

    assert (
        "tool 'web_search': the params_type Wrong does not fit what a call of web_search tells: "
        "'queries' must take ('text',) and the like, but: Input should be a valid string"
    ) in str(error)


def test_what_is_told_is_made_into_the_declared_type() -> None:
    """N2, N15: a list that was declared is a list, whatever it was told as."""
    searched: Json = {"type": "web_search_call", "id": "ws_1", "action": {"query": "cribs"}}
    session = Session()
    recorder = Recorder(session.bus)
    with bench(response(searched, message("Fine."))) as (adapter, _):
        search = NativeTool[Search, Found](name="web_search", description="Search.")
        adapter.evaluate(ask(hosted=[search]), session=session)

    (event,) = recorder.of(ToolInvoked)
    assert event.params == Search(["cribs"])
    assert event.value == Found(searched)


@dataclass(frozen=True)
class Commands:
    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None
    shell: str = "sh"


@dataclass(frozen=True)
class Hasty:
    commands: list[str]


@dataclass(frozen=True)
class Fussy:
    operation: Literal["create_file", "update_file"]
    path: str
    diff: str | None = None


def shell(params: type[Any]) -> ProviderTool[Any, ShellResult, HandlerShellConfig]:
    def run(params: Any) -> ShellResult:
        return ShellResult()

    return ProviderTool[Any, ShellResult, HandlerShellConfig](
        name="shell",
        description="Run.",
        provider="openai",
        config=HandlerShellConfig(),
        handler=run,
        params_type=params,
    )


def test_a_tool_of_ours_must_take_the_providers_calls() -> None:
    """N15: OpenAI owns the shape of these calls; a tool that cannot take it would always fail."""
    patch = ProviderTool[Fussy, None, ApplyPatchConfig](
        name="patch",
        description="Patch.",
        provider="openai",
        config=ApplyPatchConfig("/nowhere"),
        handler=lambda params: None,
    )

    assert (
        "tool 'shell': its arguments do not fit a call of shell, which has: commands, timeout_ms, "
        "max_output_length; /timeout_ms: "
    ) in str(refused(shell(Hasty)))
    assert "tool 'patch': its arguments do not fit a call of apply_patch" in str(refused(patch))


@pytest.mark.parametrize("params", [Commands, ShellParams])
def test_a_tool_of_ours_may_take_more_than_it_gets(params: type[Any]) -> None:
    """N15: what has a default need not be told."""
    with bench(response(message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(shell(params)))

    assert provider.bodies[0]["tools"] == [{"type": "shell", "environment": {"type": "local"}}]


def test_every_sort_of_every_argument_is_tried() -> None:
    """N15: three operations are three calls, with all else that a call may have."""
    tried = [each["operation"] for each in arguments_of(PatchParams)]

    assert {"create_file", "update_file", "delete_file"} <= set(tried)
    assert all(each.keys() == {"operation", "path", "diff"} for each in arguments_of(PatchParams))
    assert [codec.kind for codec in default_client_codecs() if codec.params_type is None] == [
        "tool_search"
    ]


def test_what_a_search_tells_has_the_name_that_documents_use() -> None:
    """N15: `query` is what a native search is declared with in the document."""
    assert misfit(with_field("query", str), WebSearchAction) is None
