"""A prompt on the screen while it is answered."""

from typing import Any

import pytest

from toolcrib.cli.chat import MAX_CHARS, EventScreen
from toolcrib.runtime.event_reader import Envelope


def event(kind: str, **data: Any) -> Envelope:
    return Envelope("s", 1, kind, 1.0, data)


def piece(text: str, step: int = 1) -> Envelope:
    return event("model.text_delta", turn=1, step=step, text=text)


def invoked(message: str, *, success: bool = True) -> Envelope:
    return event("tool.invoked", name="add", params={"a": 1}, message=message, success=success)


def test_text_comes_in_pieces_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    """What was streamed is not printed again at the end; a new line ends it."""
    screen = EventScreen()
    for each in ("It ", "is\n", "5."):
        screen.show(piece(each))
    screen.finish("It is\n5.")

    assert capsys.readouterr().out == "It is\n5.\n"


def test_an_answer_that_did_not_come_in_pieces_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not every model streams, and what was said before a call is no answer."""
    screen = EventScreen()
    screen.show(piece("Let me see."))
    screen.show(invoked("5"))
    screen.finish("It is 5.")

    seen = capsys.readouterr()
    assert seen.out == "Let me see.\nIt is 5.\n"
    assert seen.err.startswith('add {"a": 1} -> 5')


def test_each_step_has_lines_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """The text of the next request does not run on in the line of the last."""
    screen = EventScreen()
    screen.show(piece("One."))
    screen.show(piece("Two.", step=2))
    screen.finish("Two.")

    assert capsys.readouterr().out == "One.\nTwo.\n"


def test_a_silent_screen_keeps_the_text_back(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json stdout has nothing but the result."""
    screen = EventScreen(is_silent=True)
    screen.show(piece("It"))
    screen.show(invoked("5"))
    screen.finish("It")

    seen = capsys.readouterr()
    assert seen.out == ""
    assert "add" in seen.err


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        (event("tool.progress", tool="add", current=2.0, total=4.0), "add: 2 of 4\n"),
        (event("tool.progress", tool="add", current=2.0, message="far"), "add: 2 far\n"),
        (event("tool.output", tool="add", chunk="line\n"), "add: line\n"),
        (event("tool.withheld", tool={"name": "add"}, reason="no"), "add is unavailable: no\n"),
        (event("session.opened", fence=1), ""),
    ],
)
def test_what_tools_do_is_beside_the_answer(
    shown: Envelope, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, one line each; what is not for people is left out."""
    EventScreen().show(shown)

    assert capsys.readouterr().err == line


def test_nothing_can_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The model's text, arguments, results and output are all somebody else's."""
    screen = EventScreen()
    screen.show(piece("a\x1b[2J"))
    screen.show(invoked("b\x1b]0;title\x07", success=False))
    screen.show(event("tool.output", tool="t\x9b", chunk="c\r\u202e"))
    screen.finish("a\x1b[2J")

    seen = capsys.readouterr()
    assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(seen.out + seen.err)


def test_long_results_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """A line of a screen is no place for a whole file; newlines do not break it."""
    EventScreen().show(invoked("x" * (MAX_CHARS + 1)))
    EventScreen().show(invoked("one\ntwo"))

    long, short = capsys.readouterr().err.splitlines()
    assert f"{'x' * MAX_CHARS}..." in long
    assert "one two" in short
