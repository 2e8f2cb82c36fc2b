"""The line about a running call: what it shows, and when it makes room for others."""

import io
from typing import Any

import pytest

from tests.approval.samples import request, tool_ref
from tests.helpers.screen import screen_lines
from toolcrib.approval.decision import Actor, Approve, Decided
from toolcrib.cli.call_progress import CallScreen
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallStarted,
    Event,
    ToolInvoked,
    ToolOutput,
    ToolProgress,
)

IN_SESSION: Any = {"session_id": "s", "at": 0.0}
STARTED = CallStarted(call_id="c1", tool=tool_ref("dig"), arguments_digest="d", **IN_SESSION)


def shown(*events: Event, seconds: float = 0.0) -> str:
    """What is on the terminal after these events, of which each took so many seconds."""
    stream, now = io.StringIO(), 0.0

    def clock() -> float:
        return now

    screen = CallScreen(stream, clock)
    for event in events:
        screen.show(event)
        now += seconds
        screen.refresh()
    return "\n".join(screen_lines(stream.getvalue().replace("\n", "\r\n")))


def progress(current: float, total: float | None = None, message: str | None = None) -> Event:
    return ToolProgress(
        call_id="c1", tool="dig", current=current, total=total, message=message, **IN_SESSION
    )


def output(chunk: str) -> Event:
    return ToolOutput(call_id="c1", tool="dig", chunk=chunk, **IN_SESSION)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (progress(1), "dig runs, 1, 4 s"),
        (progress(1, 4), "dig runs, [#####...............] 1 of 4, 4 s"),
        (progress(9, 4, "deep"), "dig runs, [####################] 9 of 4 deep, 4 s"),
        (progress(1, 0), "dig runs, 1 of 0, 4 s"),
        (progress(1, None, "a\x1b[2Jb"), "dig runs, 1 a\\u001b[2Jb, 4 s"),
    ],
)
def test_progress_is_one_line_with_the_time(event: Event, line: str) -> None:
    """The name, how far it is, and for how long; nothing of it steers the terminal."""
    assert shown(STARTED, event, seconds=2.0) == line


def test_output_stays_above_the_line() -> None:
    """Pieces of a line are shown when it is complete, or when the call has ended."""
    ended = ToolInvoked(call_id="c1", name="dig", params={}, message="", success=True, **IN_SESSION)
    pieces = (output("on"), output("e\ntw"))

    assert shown(STARTED, *pieces) == "one\ndig runs, 0 s"
    assert shown(STARTED, *pieces, ended) == "one\ntw"


def test_a_question_has_the_terminal_for_itself() -> None:
    """While a person is asked about a call, the line of the other one is gone."""
    asked = ApprovalRequested(call_id="c2", request=request(), **IN_SESSION)
    approved = Decided("apr_1", "d", Approve(), Actor("person", "jo"), at=0.0)
    decided = ApprovalDecided(call_id="c2", decided=approved, **IN_SESSION)

    assert shown(STARTED, progress(1), asked) == ""
    assert shown(STARTED, progress(1), asked, decided) == "dig runs, 1, 0 s"
