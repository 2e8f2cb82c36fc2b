"""The shell in a container, to and from the Responses API."""

import base64
from pathlib import Path
from typing import Any

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
from tests.adapters.openai.typed_items import faults
from tests.adapters.openai.typed_tools import adapter_for
from toolcrib.adapters.openai.codecs.container_shell import OpenAIContainerShellCodec
from toolcrib.tools.code_interpreter import AutoContainer, ExistingContainer, NetworkPolicy
from toolcrib.tools.shell import (
    CommandOutput,
    ContainerShellConfig,
    InlineSkill,
    ShellParams,
    ShellResult,
    SkillReference,
    container_shell_tool,
)

CODEC = OpenAIContainerShellCodec()
TOOL = container_shell_tool()


def environment(**options: Any) -> dict[str, Any]:
    entry = CODEC.serialize(container_shell_tool(ContainerShellConfig(**options)))
    assert faults(adapter_for("shell"), entry) == []
    assert entry["type"] == "shell"
    return entry["environment"]


def call(call_id: str | None = "call_1", **fields: Any) -> dict[str, Any]:
    action = {"commands": ["true"]}
    whole = {"id": "sh_1", "type": "shell_call", "status": "completed", "action": action}
    return {**whole, "call_id": call_id, **fields}


def output(call_id: str | None = "call_1", **fields: Any) -> dict[str, Any]:
    chunk = {"stdout": "ok\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    whole = {"type": "shell_call_output", "status": "completed", "output": [chunk]}
    return {**whole, "call_id": call_id, **fields}


def test_a_new_container_is_the_default() -> None:
    """N14, P3: hosted only with a container, so the environment is always sent."""
    assert environment() == {"type": "container_auto", "memory_limit": "1g"}


def test_every_option_has_its_place() -> None:
    """H30: none is dropped."""
    container = AutoContainer("4g", ("file_1",), NetworkPolicy(("example.org",)))
    skills = (
        SkillReference("skill_1", "2"),
        SkillReference("skill_2"),
        InlineSkill("a", "b", b"z"),
    )

    assert environment(container=container, skills=skills) == {
        "type": "container_auto",
        "memory_limit": "4g",
        "file_ids": ["file_1"],
        "network_policy": {"type": "allowlist", "allowed_domains": ["example.org"]},
        "skills": [
            {"type": "skill_reference", "skill_id": "skill_1", "version": "2"},
            {"type": "skill_reference", "skill_id": "skill_2"},
            {
                "type": "inline",
                "name": "a",
                "description": "b",
                "source": {
                    "type": "base64",
                    "media_type": "application/zip",
                    "data": base64.b64encode(b"z").decode(),
                },
            },
        ],
    }


def test_no_domain_means_no_network() -> None:
    """An empty list of domains is sent as what it means."""
    policy = AutoContainer(network_policy=NetworkPolicy())

    assert environment(container=policy)["network_policy"] == {"type": "disabled"}


def test_a_known_container_is_an_object_here() -> None:
    """C13, P6: unlike for code interpreter; its memory is fixed and not sent."""
    assert environment(container=ExistingContainer("cntr_1", "4g")) == {
        "type": "container_reference",
        "container_id": "cntr_1",
    }


def test_a_shell_can_be_forced() -> None:
    """N18: `shell` is a tool choice of its own."""
    from openai.types.responses import ToolChoiceShellParam
    from pydantic import TypeAdapter

    assert CODEC.choice(TOOL) == {"type": "shell"}
    TypeAdapter(ToolChoiceShellParam).validate_python(CODEC.choice(TOOL), extra="forbid")


def test_call_and_output_are_one_invocation() -> None:
    """N16, N21, N24, finding 17: paired by call_id; what was asked, what came of it, and both
    items themselves.
    """
    items = fixture("shell")

    first, second = CODEC.invocations(items, TOOL)

    outputs = {item["call_id"]: item for item in items if item["type"] == "shell_call_output"}
    assert first.raw == {**items[0], "answer": outputs["call_1"]}
    assert second.raw == {**items[2], "answer": outputs["call_2"]}
    assert (first.item_id, first.kind) == ("sh_1", "shell")
    assert first.params == ShellParams(["ls /mnt/data", "cat nothing"], 10000, 4000)
    assert first.value == ShellResult(
        (
            CommandOutput("table.csv\n", "", 0),
            CommandOutput("", "cat: nothing: No such file or directory\n", 1),
        ),
        "cntr_1",
        error="command 2 ended with exit code 1",
    )
    assert second.params == ShellParams(["sleep 100"])
    assert second.value == ShellResult(
        (CommandOutput(timed_out=True),), "cntr_1", error="command 1 timed out"
    )


def test_a_command_that_fails_is_a_failure_with_its_output() -> None:
    """X9, C24: the provider did its part, so the value is kept."""
    first, second = CODEC.invocations(fixture("shell"), TOOL)

    assert (first.success, first.error) == (False, "command 2 ended with exit code 1")
    assert "table.csv\ncat: nothing: No such file" in first.message
    assert (second.success, second.error) == (False, "command 1 timed out")


def test_pairing_goes_by_id_and_not_by_place() -> None:
    """P1: outputs may come in any order, and in pieces."""
    items = [call("a"), call("b"), output("b"), output("a", output=[]), output("b")]

    first, second = CODEC.invocations(items, TOOL)

    assert (len(first.value.outputs), len(second.value.outputs)) == (0, 2)
    assert second.success


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ([call()], "shell_call has no output"),
        ([call(None), output(None)], "shell_call has no output"),
        ([call(""), output("")], "shell_call has no output"),
        ([call(status="incomplete")], "shell_call incomplete"),
        ([call(), output(status="incomplete", output=[])], "shell_call_output incomplete"),
    ],
)
def test_without_an_output_the_provider_failed(items: Items, why: str) -> None:
    """N17, X9, E5, H44: the value has no outputs and says why."""
    (found,) = CODEC.invocations(items, TOOL)

    assert (found.success, found.value.outputs, found.error) == (False, (), why)
    assert found.value.status in ("failed", "incomplete")
    assert found.value.error == why


def test_a_broken_off_output_keeps_what_there_is() -> None:
    """E5: incomplete, but not for nothing."""
    (found,) = CODEC.invocations([call(), output(status="incomplete")], TOOL)

    assert found.value.outputs[0].stdout == "ok\n"
    assert (found.success, found.message) == (False, "shell_call_output incomplete\nok")


def test_calls_for_this_machine_are_not_the_providers() -> None:
    """N14, P3: nobody has run them, so they are no invocation."""
    local = call(environment={"type": "local"})

    assert CODEC.invocations([local], TOOL) == []
    assert CODEC.parse_output([local], TOOL) is None


def test_the_output_is_that_of_all_calls() -> None:
    """H30, E3: commands of all calls in order, over all steps."""
    result = CODEC.parse_output(fixture("shell"), TOOL)

    assert result is not None
    assert [each.exit_code for each in result.outputs] == [0, 1, None]
    assert result.container_id == "cntr_1"
    assert result.render().startswith("table.csv\ncat:")


@pytest.mark.parametrize("items", [[], [output()], [{"type": "message"}], [None, 5]])
def test_without_a_call_there_is_no_output(items: Items) -> None:
    """H30: None means that the tool was not invoked."""
    assert CODEC.parse_output(items, TOOL) is None


def test_objects_of_the_sdk_parse_like_plain_json() -> None:
    """E4: the client gives objects."""
    items = fixture("shell")

    assert CODEC.parse_output(sdk_items(items), TOOL) == CODEC.parse_output(items, TOOL)


@given(mangled(fixture("shell")))
def test_no_item_breaks_the_reader(items: Any) -> None:
    """E4: whatever is missing or of the wrong type, every call is counted and rendered."""
    found = CODEC.invocations(only_objects(items), TOOL)

    assert (CODEC.parse_output(items, TOOL) is None) == (not found)
    assert all(isinstance(each.message, str) for each in found)
    assert all(each.success == (each.error is None) for each in found)


def _call(raw: Any) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key != "answer"}


@pytest.mark.parametrize("path", recordings("openai", "azure", "xai"))
def test_recorded_traffic_is_read(path: Path) -> None:
    """H48, N24: in real traffic each call in a container is one invocation with its output."""
    for items in recorded_outputs(path):
        calls = [item for item in items if item["type"] == "shell_call" and item.get("environment")]
        hosted = [call for call in calls if call["environment"]["type"] != "local"]
        found = [each for each in CODEC.invocations(items, TOOL) if _call(each.raw) in hosted]

        assert [_call(each.raw) for each in found] == hosted
        assert all(each.raw["answer"] in items for each in found)
        assert all(each.success and each.params.commands for each in found)
        assert all(each.value.outputs[0].exit_code == 0 for each in found)
