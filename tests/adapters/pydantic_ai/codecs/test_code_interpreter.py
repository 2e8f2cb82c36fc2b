"""Runs of code, in the shapes of every provider."""

from dataclasses import replace
from typing import Any

import pytest

from tests.adapters.pydantic_ai.codecs.adapter_items import (
    Item,
    answer,
    call,
    header,
    image,
    message,
)
from toolcrib.adapters.codec import Invocation
from toolcrib.adapters.pydantic_ai.codecs.code_interpreter import CodeInterpreterCodec
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    CodeRun,
    ExistingContainer,
    GeneratedFile,
    code_interpreter_tool,
)

CODEC = CodeInterpreterCodec("anthropic")
TOOL = code_interpreter_tool()


def ran(arguments: Any, content: Any, *others: Item, **details: Any) -> Invocation:
    asked = call("code_execution", arguments)
    items = [asked, answer("code_execution", content, **details), *others]
    return CODEC.invocation(asked, items, TOOL)


@pytest.mark.parametrize(
    ("arguments", "content", "stdout", "stderr", "exit_code"),
    [
        ({"code": "x"}, {"stdout": "1\n", "stderr": "", "return_code": 0}, "1\n", "", 0),
        ({"snippet": "x"}, {"stdOut": "1", "stdErr": "", "exitCode": 0}, "1", "", 0),
        ({"code": "x"}, {"outcome": "OUTCOME_OK", "output": "1\n"}, "1\n", None, None),
        ({"code": "x"}, {"status": "completed", "logs": ["1", "2"]}, "1\n2", None, None),
        ({"code": "x"}, {"stdout": "1", "stderr": "", "ret": 0, "error": ""}, "1", "", 0),
        ({"code": "x"}, "1", "1", None, None),
        ({"code": "x"}, {"encrypted_stdout": "?", "stderr": "", "return_code": 0}, "", "", 0),
    ],
)
def test_what_was_printed_is_told(
    arguments: Any, content: Any, stdout: str, stderr: str | None, exit_code: int | None
) -> None:
    """C28: Anthropic, Nova, Gemini, OpenAI and xAI each have their own words for it."""
    found = ran(arguments, content)

    assert (found.success, found.error) == (True, None)
    assert found.params == CodeRun("x", None)
    assert found.value == CodeInterpreterResult("x", stdout, stderr, exit_code)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"command": "ls -l"}, "ls -l"),
        ({"command": "view", "path": "/tmp/a"}, "view /tmp/a"),
        ({"command": "create", "path": "/tmp/a", "file_text": "hi"}, "create /tmp/a\nhi"),
        (
            {"command": "str_replace", "path": "/a", "old_str": "x", "new_str": "y"},
            "str_replace /a\nx\ny",
        ),
        (None, ""),
    ],
)
def test_commands_and_edits_are_code_too(arguments: Any, code: str) -> None:
    """N21: Anthropic's sub-tools share one name; what each did can still be read."""
    assert ran(arguments, {"stdout": ""}).params == CodeRun(code, None)


@pytest.mark.parametrize(
    ("content", "stdout"),
    [
        ({"type": "text_editor_code_execution_view_result", "content": "line"}, "line"),
        ({"type": "text_editor_code_execution_create_result", "is_file_update": False}, ""),
        (
            {"type": "text_editor_code_execution_str_replace_result", "lines": ["-a", "+b"]},
            "-a\n+b",
        ),
    ],
)
def test_what_an_editor_shows_is_output(content: Any, stdout: str) -> None:
    """C28: a viewed file and changed lines are what the model saw."""
    found = ran({"command": "view", "path": "/a"}, content)

    assert found.value.stdout == stdout
    assert (found.value.stderr, found.value.exit_code, found.success) == (None, None, True)


@pytest.mark.parametrize(
    ("content", "error", "stderr"),
    [
        (
            {"stdout": "", "stderr": "boom", "return_code": 2},
            "the code ended with exit code 2",
            "boom",
        ),
        (
            {"stdOut": "", "stdErr": "boom", "exitCode": 1, "isError": True},
            "the code ended with exit code 1",
            "boom",
        ),
        (
            {"outcome": "OUTCOME_FAILED", "output": "boom"},
            "the code failed: failed",
            "boom",
        ),
        (
            {"outcome": "OUTCOME_DEADLINE_EXCEEDED", "output": ""},
            "the code failed: deadline_exceeded",
            "",
        ),
        ({"stdOut": "", "stdErr": "boom", "isError": True}, "the code ended with an error", "boom"),
        ({"stdout": "", "stderr": "", "error": "killed"}, "killed", ""),
    ],
)
def test_code_that_fails_keeps_its_output(content: Any, error: str, stderr: str) -> None:
    """C29: the run happened, so its value stays; it is a failure all the same."""
    found = ran({"code": "x"}, content)

    assert (found.success, found.error) == (False, error)
    assert found.value.stderr == stderr


def test_a_traceback_in_mixed_output_is_a_failure() -> None:
    """C29: OpenAI says nothing else of how code ended."""
    log = 'Traceback (most recent call last):\n  File "<stdin>", line 1\nValueError: no'
    found = ran({"code": "x"}, {"status": "completed", "logs": [log]})

    assert not found.success
    assert "ValueError: no" in (found.error or "")
    assert (found.value.exit_code, found.value.is_inferred) == (1, True)


@pytest.mark.parametrize(
    ("content", "details", "error"),
    [
        (
            {"type": "bash_code_execution_tool_result_error", "error_code": "unavailable"},
            {},
            "code_execution failed: unavailable",
        ),
        (None, {"status": "error"}, "code_execution failed: error"),
        (None, {"status": "failed", "error": "gone"}, "code_execution failed: failed: gone"),
        ({"status": "incomplete"}, {}, "code_execution failed: incomplete"),
    ],
)
def test_a_sandbox_that_fails_says_so(content: Any, details: Item, error: str) -> None:
    """N17: the provider could not run the code; its code is told."""
    found = ran({"code": "x"}, content, **details)

    assert (found.success, found.error, found.message) == (False, error, error)
    assert (found.value.error, found.value.stdout) == (error, "")
    assert found.value.status != "completed"


def test_files_and_container_are_told() -> None:
    """C30, C33: Anthropic names the container once for the whole response."""
    content = {"stdout": "", "content": [{"file_id": "f1"}, {"file_id": None}], "return_code": 0}
    asked, answered = call("code_execution", {"code": "x"}), answer("code_execution", content)
    items = [header(container_id="cnt_1"), asked, answered, header(container_id="cnt_2")]

    found = CODEC.invocation(asked, items, TOOL)

    assert found.value.files == (GeneratedFile("cnt_1", "f1", ""),)
    assert found.params == CodeRun("x", "cnt_1")
    late = [header(container_id="cnt_1"), asked, header(), answered]
    assert CODEC.invocation(asked, late, TOOL).value.container_id == "cnt_1"


def test_files_that_the_text_names_have_their_place() -> None:
    """C34: OpenAI's files are named by the answer; each belongs to the last run before it."""
    note = {"type": "container_file_citation", "container_id": "cnt", "file_id": "f1"}
    notes = [
        note | {"filename": "a.csv", "start_index": 0, "end_index": 5},
        {"type": "other"},
        note,
    ]
    runs = [call("code_execution", {"code": c, "container_id": "cnt"}, key=c) for c in "ab"]
    done = [answer("code_execution", {"status": "completed"}, key=c) for c in "ab"]
    items = [*runs, *done, message("See: "), message("a.csv", *notes)]

    result = CODEC.parse_output(items, TOOL)
    first, second = CODEC.invocations(items, TOOL)

    made = GeneratedFile("cnt", "f1", "a.csv", (5, 10))
    assert result is not None
    assert result.files == second.value.files == (made,)
    assert first.value.files == ()


def test_images_belong_to_the_run_that_made_them() -> None:
    """C28: by id where there is one, else by place; as addresses, in the common base64."""
    content = {"outcome": "OUTCOME_OK", "output": ""}
    items = [
        call("code_execution", {"code": "a"}, key="1"),
        answer("code_execution", content, key="1"),
        image("a-_b"),
        call("code_execution", {"code": "b"}, key="2"),
        image("cccc", key="2"),
        answer("code_execution", content, key="2"),
        message("text"),
        image("dddd"),
    ]

    first, second = CODEC.invocations(items, TOOL)
    result = CODEC.parse_output(items, TOOL)

    assert first.value.images == ("data:image/png;base64,a+/b",)
    assert second.value.images == ("data:image/png;base64,cccc",)
    assert result is not None
    assert result.images == first.value.images + second.value.images


def test_several_runs_stay_several() -> None:
    """C28, finding 7: each run keeps its code, output and exit code; how it ended is how the last
    run ended.
    """
    items = [
        call("code_execution", {"code": "a"}, key="1"),
        answer("code_execution", {"stdout": "1", "stderr": "", "return_code": 1}, key="1"),
        call("code_execution", {"code": "b"}, key="2"),
        answer("code_execution", {"stdout": "2", "stderr": "", "return_code": 0}, key="2"),
    ]

    failed = CodeInterpreterResult("a", "1", "", 1, error="the code ended with exit code 1")
    mended = CodeInterpreterResult("b", "2", "", 0)
    assert CODEC.parse_output(items, TOOL) == replace(
        mended, error=failed.error, runs=(failed, mended)
    )
    assert CODEC.parse_output([message("x")], TOOL) is None


def test_files_go_along_under_the_models_own_name() -> None:
    """C16: pydantic-ai drops files of a provider that it does not take for the model's."""
    tool = code_interpreter_tool(CodeInterpreterConfig(AutoContainer(file_ids=("f1",))))

    assert CODEC.serialize(TOOL) == {"type": "code_execution"}
    for codec, name in (
        (CODEC, "anthropic"),
        (CodeInterpreterCodec("openai-responses"), "openai"),
        (CodeInterpreterCodec("openai-responses", "azure"), "azure"),
    ):
        assert codec.serialize(tool)["files"] == [{"file_id": "f1", "provider_name": name}]


def test_an_existing_container_is_a_setting_of_the_model() -> None:
    """C14: Anthropic takes its id beside the tools."""
    tool = code_interpreter_tool(CodeInterpreterConfig(ExistingContainer("cnt_1")))

    assert CODEC.contribute(tool).body == {"anthropic_container": "cnt_1"}
    assert CODEC.contribute(TOOL).body == {}
