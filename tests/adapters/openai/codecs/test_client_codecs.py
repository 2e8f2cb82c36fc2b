"""Calls that OpenAI defines and this process runs: what holds for every kind of them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter

from tests.adapters.openai.codecs.client_tools import (
    BOTH,
    ITEMS,
    LEGACY,
    PATCH,
    SEARCH,
    SHELL,
    TOOLS,
    answer,
    call_of,
    echo_words,
)
from tests.adapters.openai.response_samples import (
    fixture,
    mangled,
    only_objects,
    recorded_outputs,
    recordings,
)
from tests.adapters.openai.typed_items import untyped_in_item
from tests.adapters.openai.typed_tools import assert_typed
from toolcrib import Executor, Session
from toolcrib.adapters.openai.adapter import default_client_codecs
from toolcrib.adapters.tool_calls import ClientCodec
from toolcrib.tools.shell import container_shell_tool, legacy_shell_tool


@pytest.mark.parametrize(
    ("item", "place"),
    [
        ({"output": [{"stdout": "x"}]}, "stderr"),
        ({"output": [{"stdout": "", "stderr": "", "outcome": {"type": "gone"}}]}, "outcome"),
        ({"output": [], "bogus": 1}, "bogus"),
    ],
)
def test_the_check_of_answers_is_itself_sound(item: dict[str, Any], place: str) -> None:
    """H47: the SDK forwards whatever it is given, so the check must look at every depth."""
    found = untyped_in_item({"type": "shell_call_output", "call_id": "x", **item})

    assert any(place in each for each in found)


@pytest.mark.parametrize(("codec", "tool"), BOTH)
def test_entries_and_choices_pass_the_sdks_types(codec: ClientCodec, tool: Any) -> None:
    """H47, N18: no unknown field, no unknown choice."""
    from openai.types.responses.response_create_params import ToolChoice

    assert_typed(codec.serialize(tool))
    adapter: TypeAdapter[Any] = TypeAdapter(ToolChoice)
    adapter.validate_python(codec.choice(tool), extra="forbid")


@pytest.mark.parametrize(("codec", "tool"), BOTH)
def test_each_tool_has_one_codec(codec: ClientCodec, tool: Any) -> None:
    """H31: by provider and kind of configuration; provider-run tools have none here."""
    speaking = [each for each in default_client_codecs() if each.speaks_for(tool)]

    assert [type(each) for each in speaking] == [type(codec)]
    assert not codec.speaks_for(container_shell_tool())
    assert not codec.speaks_for(legacy_shell_tool(echo_words, provider="other"))


@pytest.mark.parametrize(
    ("codec", "call_id", "arguments"),
    [
        (
            PATCH,
            "call_a",
            {
                "operation": "create_file",
                "path": "notes/todo.md",
                "diff": "+# To do\n+- tea\n",
            },
        ),
        (PATCH, "call_c", {"operation": "delete_file", "path": "notes/old.md"}),
        (
            SHELL,
            "call_d",
            {"commands": ["echo hello"], "timeout_ms": 5000, "max_output_length": 1000},
        ),
        (
            LEGACY,
            "call_e",
            {
                "command": ["echo", "hello"],
                "env": {"LANG": "C"},
                "timeout_ms": 1000,
                "working_directory": "src",
            },
        ),
        (SEARCH, "call_f", {"queries": ["weather"]}),
    ],
)
def test_an_item_becomes_a_call(
    codec: ClientCodec, call_id: str, arguments: dict[str, Any]
) -> None:
    """P3: id, tool and arguments; what is null is not there."""
    call = call_of(codec, ITEMS[call_id])

    assert (call.call_id, call.tool_name) == (call_id, TOOLS[codec].name)
    assert call.arguments == arguments
    assert call.item is ITEMS[call_id]


@pytest.mark.parametrize(("codec", "tool"), BOTH)
def test_calls_of_other_types_and_without_an_id_are_passed_over(
    codec: ClientCodec, tool: Any
) -> None:
    """E4: what cannot be answered is no call."""
    items = list(ITEMS.values())
    own = [item for item in items if item["type"] == codec.call_type]

    assert [call.item for call in codec.calls(items, tool.name)] == own
    assert codec.calls([{**own[0], "call_id": None}, {}, {"type": ["x"]}], tool.name) == []


def test_what_the_provider_ran_is_not_run_again() -> None:
    """N14, P3: hosted shells and searches come in the same types."""
    container = {"type": "container_reference", "container_id": "cntr_1"}

    assert SHELL.calls([{**ITEMS["call_d"], "environment": container}], "shell") == []
    assert SEARCH.calls([{**ITEMS["call_f"], "execution": "server"}], "tool_search") == []
    assert len(SHELL.calls([{**ITEMS["call_d"], "environment": None}], "shell")) == 1


@pytest.mark.parametrize("status", ["incomplete", "in_progress"])
@pytest.mark.parametrize(("codec", "tool"), BOTH)
async def test_half_a_call_never_runs(codec: ClientCodec, tool: Any, status: str) -> None:
    """E5: a call that broke off is answered with a failure."""
    item = next(item for item in ITEMS.values() if item["type"] == codec.call_type)
    broken = {**item, "status": status}

    call = call_of(codec, broken)
    outcome = await Executor(Session(), [tool]).call(call.tool_name, call.arguments)

    assert outcome.failure is not None
    assert outcome.failure.kind == "invalid_arguments"


@settings(max_examples=25)
@given(mangled(fixture("client_calls")))
async def test_no_item_breaks_the_reader(items: Any) -> None:
    """E4: whatever is missing or of the wrong type, a call is made, judged and answered."""
    for codec, tool in TOOLS.items():
        executor = Executor(Session(), [tool])
        for call in codec.calls(only_objects(items), tool.name):
            outcome = await executor.call(call.tool_name, call.arguments)
            answered = answer(codec, call, outcome)

            answered.pop("caller", None)
            assert codec is LEGACY or untyped_in_item(answered) == []


@pytest.mark.parametrize("path", recordings("openai", "azure", "xai"))
def test_recorded_calls_are_read(path: Path) -> None:
    """H48: in real traffic each call for this process is one whose arguments are valid."""
    from toolcrib.tools.prepared_tool import prepare

    for items in recorded_outputs(path):
        for codec, tool in TOOLS.items():
            for call in codec.calls(items, tool.name):
                prepare(tool).parse(TypeAdapter(dict[str, Any]).dump_json(call.arguments))
