"""The question on the screen shows everything and obeys nothing."""

import json

import pytest

from tests.approval.samples import request, tool_ref
from toolcrib.approval.caller import Caller
from toolcrib.approval.panel import draw_panel, shown_json
from toolcrib.approval.quorum import Quorum
from toolcrib.terminal_text import showable
from toolcrib.tools.identity import Place


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢 🙂", "plain é 漢 🙂"),
        ("\x1b[2J", "\\u001b[2J"),
        ("\x9b1A\x7f", "\\u009b1A\\u007f"),
        ("a\r\nb\tc", "a\\u000d\\u000ab\\u0009c"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\ue000", "\\ue000"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text: str, shown: str) -> None:
    """Controls, direction marks and invisible characters are shown as what they are."""
    assert showable(text) == shown


def test_json_made_safe_is_still_the_same_json() -> None:
    """An editor that gets the shown JSON gives the same arguments back."""
    value = {"a\x1b": "\x9b\u202e\U000e0041 漢", "n": [1, None, True]}

    assert json.loads(shown_json(value)) == value


def test_what_changed_in_the_tool_is_shown() -> None:
    """An approver who is asked again sees what is new, written out like everything else."""
    asked = request({}, changes=("version: 1.0.0 -> 1.1.0", "description: a -> \x1b[2J"))

    assert draw_panel(asked, 80).split("\n")[-3:-1] == [
        "| changed  version: 1.0.0 -> 1.1.0",
        "| changed  description: a -> \\u001b[2J",
    ]


def test_every_fact_is_shown() -> None:
    """Newcomers 8: the approver sees one sentence, the arguments, the tool, its source and place,
    who asks, the rule, the reason, the tool's own note, who else has to approve and the deadline.
    """
    asked = request(
        {"path": "notes.txt"},
        tool=tool_ref("files.write", source="mcp:files", place="sandbox"),
        deadline=1300.0,
        metadata={"size": 5},
        caller=Caller("ann", "http", is_model=True, groups=frozenset({"desk"})),
        approvers=(Quorum(2, ("finance",)),),
    )

    assert draw_panel(asked, 80).split("\n")[1:-1] == [
        "| files.write wants to run in a sandbox with these arguments:",
        "| {",
        '|   "path": "notes.txt"',
        "| }",
        "|",
        "| tool     files.write, version 1.2.0",
        "| source   mcp:files",
        "| place    sandbox",
        "| asker    ann (desk), by a model, over http",
        "| rule     writes",
        "| why      Files change.",
        '| details  {"size": 5}',
        "| needs    2 of finance",
        "| expires  5m after it was asked; then it does not run",
    ]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("local", "in this process"),
        ("sandbox", "in a sandbox"),
        ("client", "in the connected client"),
        ("provider", "on the model's platform"),
    ],
)
def test_every_place_has_words(place: Place, words: str) -> None:
    """The sentence says where the call would run."""
    assert words in draw_panel(request(tool=tool_ref(place=place)), 80)


def test_what_is_not_there_is_not_shown() -> None:
    """No deadline and no note give no empty lines of their own."""
    panel = draw_panel(request(), 80)

    assert "expires" not in panel
    assert "details" not in panel


@pytest.mark.parametrize("width", [1, 20, 33, 80])
def test_no_line_leaves_the_frame(width: int) -> None:
    """Long and wide text is cut by hand, so that no line of it starts without the border."""
    panel = draw_panel(request({"text": "> a approve " * 40 + "漢" * 90}), width)

    lines = panel.split("\n")
    assert all(line.startswith(("| ", "|", "+-")) for line in lines)
    assert max(len(line) + line.count("漢") for line in lines) <= max(width, 20)
    assert panel.count("漢") == 90
