"""Scenario files: what is wrong in one is told with its file and its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend
from toolcrib.embedded.backends.scenarios.scenario import load_scenario, read_scenario
from toolcrib.errors import UsageError

GOOD = """
name: clerk
turns:
  - steps:
      - calls:
          - {tool: look, arguments: {id: 7}, as: seen}
          - tool: look
      - say: done
"""


def test_a_file_is_read_and_a_call_is_named_by_as_or_by_its_tool(tmp_path: Path) -> None:
    """`as` names what a call answers; without it the tool's name does."""
    path = tmp_path / "clerk.yaml"
    path.write_text(GOOD)
    scenario = load_scenario(path)
    calls = scenario.turns[0].steps[0].calls or []
    assert [call.name for call in calls] == ["seen", "look"]
    assert calls[0].arguments == {"id": 7}
    assert ScriptedBackend.from_file(path).name == "clerk"


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("name: a\nturns:\n  - steps:\n      - sya: hello\n", 4, "sya"),
        ("name: a\nturns:\n  - steps: []\n", 3, "steps"),
        ("name: a\nturns:\n  - steps:\n      - calls:\n          - argumens: {}\n", 5, "tool"),
        ("name: a\nturns:\n  - steps:\n      - calls: []\n", 4, "calls"),
        (
            "name: a\nturns:\n  - steps:\n    - calls:\n      - tool: x\n        as: 1 x\n",
            6,
            "as",
        ),
        ("name: a\nturns: [\n", 3, "YAML"),
        ("name: a\nturns: &x []\n", 2, "anchors"),
        ("turns: []\n", 1, "name"),
    ],
)
def test_a_fault_names_the_file_the_line_and_the_member(text: str, line: int, fault: str) -> None:
    """Whoever wrote it finds it."""
    with pytest.raises(UsageError) as failed:
        read_scenario(text, "story.yaml")
    assert str(failed.value).startswith(f"story.yaml:{line}: ")
    assert fault in str(failed.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The error says which file, and why."""
    with pytest.raises(UsageError, match=r"absent\.yaml: cannot be read: No such file"):
        load_scenario(tmp_path / "absent.yaml")
