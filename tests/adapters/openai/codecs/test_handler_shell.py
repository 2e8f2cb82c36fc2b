"""The shell whose commands run here, to and from the Responses API."""

import json
from typing import Any

import pytest
from pydantic_core import to_json

from tests.adapters.openai.codecs.client_tools import ITEMS, SHELL, TOOLS, call_of, echo, run
from tests.adapters.openai.typed_items import faults, untyped_in_item
from tests.adapters.openai.typed_tools import adapter_for
from toolcrib.tools.result import ToolResult
from toolcrib.tools.shell import (
    CommandOutput,
    HandlerShellConfig,
    LocalSkill,
    ShellParams,
    ShellResult,
    handler_shell_tool,
)


def test_the_entry_says_that_it_is_local() -> None:
    """N14, P3: always, because leaving it out means who knows what."""
    assert SHELL.serialize(TOOLS[SHELL]) == {"type": "shell", "environment": {"type": "local"}}
    skills = HandlerShellConfig((LocalSkill("pdf", "Read PDF.", "/skills/pdf"),))
    entry = SHELL.serialize(handler_shell_tool(echo, skills))
    assert entry["environment"]["skills"] == [
        {"name": "pdf", "description": "Read PDF.", "path": "/skills/pdf"}
    ]
    assert faults(adapter_for("shell"), entry) == []


async def test_commands_are_run_by_the_handler_and_answered_one_by_one() -> None:
    """Facts 2.2: streams and exit code of each, and where the provider shall cut."""
    item = {**ITEMS["call_d"], "action": {"commands": ["a", "b"], "max_output_length": 9}}

    answered = await run(SHELL, item)

    ended = {"type": "exit", "exit_code": 0}
    assert answered == {
        "type": "shell_call_output",
        "call_id": "call_d",
        "status": "completed",
        "max_output_length": 9,
        "output": [
            {"stdout": "a\n", "stderr": "", "outcome": ended},
            {"stdout": "b\n", "stderr": "", "outcome": ended},
        ],
    }
    assert untyped_in_item(answered) == []


async def test_how_commands_ended_is_told() -> None:
    """X9: a command that fails is an output like any other."""

    def fail(params: ShellParams) -> ShellResult:
        return ShellResult((CommandOutput("", "no\n", 2), CommandOutput("half", timed_out=True)))

    answered = await run(SHELL, ITEMS["call_d"], handler_shell_tool(fail, requires_approval=False))

    assert [each["outcome"] for each in answered["output"]] == [
        {"type": "exit", "exit_code": 2},
        {"type": "timeout"},
    ]


async def test_what_was_cut_is_not_sent_whole() -> None:
    """The model sees no more than the outcome's text, and how it ended all the same."""

    def chatter(params: ShellParams) -> ShellResult:
        return ShellResult((CommandOutput("secret" * 100, "", 3),))

    tool = handler_shell_tool(chatter, requires_approval=False, max_result_chars=10)
    answered = await run(SHELL, ITEMS["call_d"], tool)

    (chunk,) = answered["output"]
    assert "characters were cut" in chunk["stdout"]
    assert len(chunk["stdout"]) < 300
    assert chunk["outcome"] == {"type": "exit", "exit_code": 3}


def test_a_result_read_back_from_a_ledger_counts() -> None:
    """The answer may be given in another process, and must be the same."""
    result = ShellResult((CommandOutput("a\n", "", 0), CommandOutput("", "b", 2)))
    stored = json.loads(to_json(result))
    call = call_of(SHELL, ITEMS["call_d"])

    fresh = SHELL.output_item(call, result.render(), success=True, value=result)

    assert SHELL.output_item(call, result.render(), success=True, value=stored) == fresh
    assert len(fresh["output"]) == 2


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [("denied", {"type": "exit", "exit_code": 1}), ("timeout", {"type": "timeout"})],
)
def test_a_call_that_did_not_run_says_so_as_an_error(failure: str, outcome: dict[str, Any]) -> None:
    """R42: denied or too slow, the turn goes on."""
    answered = SHELL.output_item(
        call_of(SHELL, ITEMS["call_d"]), "Denied.", success=False, failure=failure
    )

    assert answered["output"] == [{"stdout": "", "stderr": "Denied.", "outcome": outcome}]
    assert untyped_in_item(answered) == []


async def test_a_handler_that_reports_a_failure_keeps_its_exit_code() -> None:
    """X9: the text is the failure's, the exit code the command's."""

    def fail(params: ShellParams) -> ToolResult[ShellResult]:
        result = ShellResult((CommandOutput("", "", 7),))
        return ToolResult(value=result, message="It broke.", success=False)

    answered = await run(SHELL, ITEMS["call_d"], handler_shell_tool(fail, requires_approval=False))

    assert answered["output"] == [
        {"stdout": "", "stderr": "It broke.", "outcome": {"type": "exit", "exit_code": 7}}
    ]
