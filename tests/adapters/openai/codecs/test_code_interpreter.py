"""The code interpreter to and from the Responses API."""

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given

from tests.adapters.openai.response_samples import (
    Items,
    fixture,
    mangled,
    only_objects,
    recorded_outputs,
    recordings,
    sdk_items,
)
from tests.adapters.openai.typed_tools import assert_typed
from toolcrib.adapters.openai.codecs.code_interpreter import OpenAICodeInterpreterCodec
from toolcrib.errors import UnsupportedOption
from toolcrib.tools import HostMount, OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    CodeRun,
    Container,
    ExistingContainer,
    GeneratedFile,
    NetworkPolicy,
    code_interpreter_tool,
)

CODEC = OpenAICodeInterpreterCodec()
TOOL = code_interpreter_tool()
TEXT = (
    "The mean is 4. See [the plot](sandbox:/mnt/data/plot.png) and "
    "[the table](sandbox:/mnt/data/mean.csv)."
)


def container_sent(container: Container) -> Any:
    entry = CODEC.serialize(code_interpreter_tool(CodeInterpreterConfig(container)))
    assert_typed(entry)
    assert entry["type"] == "code_interpreter"
    return entry["container"]


def call(**fields: Any) -> dict[str, Any]:
    return {"id": "ci_1", "type": "code_interpreter_call", "status": "completed", **fields}


def logs(*texts: Any) -> list[dict[str, Any]]:
    return [{"type": "logs", "logs": text} for text in texts]


def cites(container_id: str, file_id: str, start: int = 0, end: int = 0) -> dict[str, Any]:
    note = {
        "type": "container_file_citation",
        "container_id": container_id,
        "file_id": file_id,
        "filename": f"{file_id}.csv",
        "start_index": start,
        "end_index": end,
    }
    part = {"type": "output_text", "text": "12345", "annotations": [note]}
    return {"type": "message", "content": [part]}


def parsed(*items: Any) -> CodeInterpreterResult:
    result = CODEC.parse_output(items, TOOL)
    assert result is not None
    return result


def test_a_new_container_names_its_memory() -> None:
    """C14, C18: `auto`, with the tier that was chosen or its default."""
    assert container_sent(AutoContainer()) == {"type": "auto", "memory_limit": "1g"}
    assert container_sent(AutoContainer("16g"))["memory_limit"] == "16g"


def test_files_go_in_by_id() -> None:
    """C13: as a list, and only when there are any."""
    assert container_sent(AutoContainer(file_ids=("file_1", "file_2")))["file_ids"] == [
        "file_1",
        "file_2",
    ]


def test_the_network_policy_is_sent() -> None:
    """C13: no domain means no network; silence leaves it to the provider."""
    none = AutoContainer(network_policy=NetworkPolicy())
    some = AutoContainer(network_policy=NetworkPolicy(("example.org",)))

    assert container_sent(none)["network_policy"] == {"type": "disabled"}
    assert container_sent(some)["network_policy"] == {
        "type": "allowlist",
        "allowed_domains": ["example.org"],
    }
    assert "network_policy" not in container_sent(AutoContainer())


def test_a_known_container_is_a_bare_id() -> None:
    """C13, P6: there is no object form, and its memory cannot be restated."""
    assert container_sent(ExistingContainer("cntr_1", memory_limit="4g")) == "cntr_1"


def test_outputs_are_asked_for() -> None:
    """P8: without this include `outputs` is null."""
    assert CODEC.contribute(TOOL).include == ("code_interpreter_call.outputs",)


def test_the_interpreter_can_be_forced() -> None:
    """C19, P15: by its own type; "required" would force any tool."""
    from openai.types.responses import ToolChoiceTypesParam
    from pydantic import TypeAdapter

    assert CODEC.choice(TOOL) == {"type": "code_interpreter"}
    TypeAdapter(ToolChoiceTypesParam).validate_python(CODEC.choice(TOOL), extra="forbid")


def test_the_provider_bound_tool_is_spoken_for_too() -> None:
    """C12, C18: one codec for both ways to declare it."""
    tool = OpenAICodeInterpreterTool(
        name="python", container={"type": "auto", "memory_limit": "4g", "file_ids": ["file_1"]}
    )

    entry = CODEC.serialize(tool)

    assert_typed(entry)
    assert entry == {
        "type": "code_interpreter",
        "container": {"type": "auto", "memory_limit": "4g", "file_ids": ["file_1"]},
    }
    assert CODEC.parse_output(fixture("code_interpreter"), cast("Any", tool)) == parsed(
        *fixture("code_interpreter")
    )
    assert CODEC.contribute(cast("Any", tool)).tools == (entry,)


def test_files_of_the_host_must_be_uploaded_first() -> None:
    """C28, P7: there is no field for them, and leaving them out in silence would lose them."""
    tool = OpenAICodeInterpreterTool(host_mounts=(HostMount(host_path="data"),))

    with pytest.raises(UnsupportedOption, match=r"openai.*host_mounts.*code_interpreter.*file_ids"):
        CODEC.serialize(tool)


@pytest.mark.parametrize("items", [[], [cites("c", "f")], [{"type": "code_interpreter"}], [None]])
def test_without_a_call_there_is_no_output(items: Items) -> None:
    """H30, C22: None means that the tool was not invoked, and nothing else."""
    assert CODEC.parse_output(items, TOOL) is None


def test_several_runs_stay_several() -> None:
    """C22, C24, C29, P5, finding 7: each run has its own code and output; pictures and files are
    those of all runs, wherever the items stand.
    """
    result = parsed(*fixture("code_interpreter"))

    assert [(run.code, run.stdout) for run in result.runs] == [
        ("import statistics\nprint(statistics.mean([2, 4, 6]))", "4\n"),
        ("plot()", "<Figure size 640x480>"),
    ]
    assert (result.code, result.stdout) == ("plot()", "<Figure size 640x480>")
    assert result.images == ("data:image/png;base64,iVBORw0KGgo=",)
    assert result.container_id == "cntr_1"
    assert (result.stderr, result.exit_code, result.is_inferred) == (None, None, False)


def test_files_come_from_the_answer_with_their_place() -> None:
    """C25, C29, E6: each file once; a mention at zero is none, and a later one counts."""
    plot, table = parsed(*fixture("code_interpreter")).files

    assert (plot.container_id, plot.file_id, plot.filename) == ("cntr_1", "cfile_1", "plot.png")
    assert plot.span is not None
    assert TEXT[slice(*plot.span)] == "[the plot](sandbox:/mnt/data/plot.png)"
    assert (table.file_id, table.filename) == ("cfile_2", "mean.csv")
    assert table.span is not None
    assert TEXT[slice(*table.span)] == "[the table](sandbox:/mnt/data/mean.csv)"


def test_a_file_may_have_no_place() -> None:
    """E6: pictures that the text does not mention come with an empty span at zero."""
    assert parsed(call(), cites("cntr_1", "f")).files == (
        GeneratedFile("cntr_1", "f", "f.csv", None),
    )


def test_places_count_in_the_whole_text() -> None:
    """P19: a file that the second message mentions lies behind the first."""
    files = parsed(call(), cites("c", "a", 0, 5), cites("c", "b", 1, 3)).files

    assert [file.span for file in files] == [(0, 5), (6, 8)]


def test_every_call_is_one_invocation() -> None:
    """N21, N24, C17: what ran, where, and what it printed; the item is kept as it came."""
    items = fixture("code_interpreter")

    first, second = CODEC.invocations(items, TOOL)

    assert (first.raw, second.raw) == (items[1], items[3])
    assert first.params == CodeRun("import statistics\nprint(statistics.mean([2, 4, 6]))", "cntr_1")
    assert (first.message, first.value.stdout) == ("4\n", "4\n")
    assert (first.success, first.error, first.item_id) == (True, None, "ci_1")
    assert second.value.images == ("data:image/png;base64,iVBORw0KGgo=",)


def test_a_file_belongs_to_the_last_run_before_its_mention() -> None:
    """C29: nothing says which run made it, and no two events should name one file."""
    first, second = CODEC.invocations(fixture("code_interpreter"), TOOL)

    assert first.value.files == ()
    assert [file.file_id for file in second.value.files] == ["cfile_1", "cfile_2"]


def test_a_file_belongs_to_a_run_in_its_container() -> None:
    """C29: a later run elsewhere has nothing to do with it, nor a run after the mention."""
    items = [
        call(id="ci_1", container_id="a"),
        call(id="ci_2", container_id="b"),
        cites("a", "f"),
        call(id="ci_3", container_id="a"),
    ]

    files = {run.item_id: run.value.files for run in CODEC.invocations(items, TOOL)}

    assert {name: bool(made) for name, made in files.items()} == {
        "ci_1": True,
        "ci_2": False,
        "ci_3": False,
    }


def test_an_exception_is_read_from_its_traceback() -> None:
    """C24, C32, P8, X9: the item says `completed`; value and output are kept, marked inferred."""
    (found,) = CODEC.invocations(fixture("code_interpreter_exception"), TOOL)

    run = found.value
    assert (found.success, run.exit_code, run.is_inferred) == (False, 1, True)
    assert run.stderr.startswith("ZeroDivisionError ")
    assert run.stderr.endswith("ZeroDivisionError: division by zero")
    assert run.stdout.startswith("read 3 rows")
    assert found.message == run.stdout
    assert found.error == (
        "the code ended with an exception, to judge by its output: "
        "ZeroDivisionError: division by zero"
    )


def test_the_last_run_decides_how_it_ended() -> None:
    """C24, finding 7: a model that mends its code has succeeded in the end, and the exception of
    the first run is still told.
    """
    items = fixture("code_interpreter_exception")
    mended = call(code="print(2)", outputs=logs("2"))

    result = parsed(*items, mended)

    assert (result.stderr, result.exit_code, result.is_inferred) == (None, None, False)
    assert result.stdout == "2"
    assert [run.exit_code for run in result.runs] == [1, None]
    assert (result.status, result.error) == ("completed", result.runs[0].error)
    assert "ZeroDivisionError" in (result.error or "")
    assert parsed(mended, *items).exit_code == 1


def test_a_failed_call_says_so_in_its_value() -> None:
    """N17, X9, C24, H44, finding 7: the interpreter itself failed: nothing ran, and the output
    tells it with status and error.
    """
    (found,) = CODEC.invocations(fixture("code_interpreter_failed"), TOOL)

    assert not found.success
    assert (found.value.status, found.value.error) == ("failed", "code_interpreter_call failed")
    assert parsed(*fixture("code_interpreter_failed")) == found.value
    assert found.error == found.message == "code_interpreter_call failed"
    assert found.params == CodeRun("print(1)", "cntr_1")


def test_a_failed_call_that_printed_keeps_its_value() -> None:
    """X9, C32: code that ran and broke down has something to show."""
    broken = call(status="failed", outputs=logs("half\n"), error={"code": "oom"})

    found = CODEC.invocation(broken, [broken], TOOL)

    assert (found.success, found.value.stdout) == (False, "half\n")
    assert found.message == "code_interpreter_call failed: oom\nhalf\n"


@pytest.mark.parametrize("status", ["in_progress", "interpreting"])
def test_a_run_without_end_is_not_a_success(status: str) -> None:
    """E5: a response that was cut off holds calls that never finished."""
    cut = CODEC.invocation(call(status=status, outputs=[]), [], TOOL)
    late = CODEC.invocation(call(status=status, outputs=logs("done")), [], TOOL)

    assert (cut.success, cut.value.status) == (False, status)
    assert cut.error == f"code_interpreter_call did not finish: {status}"
    assert late.success


@pytest.mark.parametrize("outputs", [None, [], [{"type": "hologram"}], "text", [5]])
def test_outputs_may_be_missing_or_unknown(outputs: Any) -> None:
    """P8, E4: null without the include; new kinds of output are passed over."""
    found = CODEC.invocation(call(code="x = 1", outputs=outputs), [], TOOL)

    assert found.success
    assert found.value == CodeInterpreterResult(code="x = 1")


def test_arguments_stand_in_for_missing_code() -> None:
    """E4: other servers of this API tell the code as a function call's arguments."""
    told = parsed(call(code=None, arguments='{"code": "print(1)"}'))

    assert told.code == "print(1)"
    assert parsed(call(code=None, arguments="{broken")).code == ""


def test_each_output_starts_on_a_line_of_its_own() -> None:
    """C24: several pieces of output do not run into each other."""
    assert parsed(call(outputs=logs("1", "2\n", "3", None))).stdout == "1\n2\n3"


@pytest.mark.parametrize("name", ["code_interpreter", "code_interpreter_failed"])
def test_objects_of_the_sdk_parse_like_plain_json(name: str) -> None:
    """P10, E4: annotations are objects there, not dicts."""
    items = fixture(name)

    assert CODEC.parse_output(sdk_items(items), TOOL) == CODEC.parse_output(items, TOOL)


@given(mangled(fixture("code_interpreter")))
def test_no_item_breaks_the_reader(items: Any) -> None:
    """E4: whatever is missing or of the wrong type, each call is one invocation."""
    calls = [i for i in only_objects(items) if i.get("type") == "code_interpreter_call"]

    found = CODEC.invocations(only_objects(items), TOOL)
    result = CODEC.parse_output(items, TOOL)

    assert [repr(each.raw) for each in found] == [repr(each) for each in calls]
    assert (result is None) == (not calls)


@pytest.mark.parametrize("path", recordings("openai", "azure", "xai"))
def test_recorded_traffic_is_read(path: Path) -> None:
    """H48, N24: in real traffic each call is one invocation."""
    for items in recorded_outputs(path):
        calls = [item for item in items if item["type"] == "code_interpreter_call"]
        found = CODEC.invocations(items, TOOL)

        assert [each.raw for each in found] == calls
        assert all(each.success == (each.error is None) for each in found)
        assert (CODEC.parse_output(items, TOOL) is None) == (not calls)
