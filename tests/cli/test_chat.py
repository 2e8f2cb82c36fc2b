"""A prompt on the screen while it is answered, and the commands of a chat."""

from dataclasses import replace
from typing import Any, Final

import pytest

from tests.runtime.host_runtime import host_tool, scripted, serving
from toolcrib import Event, Failure, TextDelta, ToolInvoked, ToolOutput, ToolProgress
from toolcrib.cli.chat import HELP, TerminalChat
from toolcrib.cli.event_screen import MAX_CHARS, EventScreen
from toolcrib.failures import FailureKind
from toolcrib.ledger.events import SessionOpened
from toolcrib.ledger.prompt_events import (
    HostedToolProgress,
    PartialReply,
    ReasoningDelta,
    ToolWithheld,
)
from toolcrib.testing import ScriptedOpenAI, calls, says
from toolcrib.tools.identity import ToolRef

BASE: Final[Any] = {"session_id": "s", "at": 1.0}
CALL: Final[Any] = {**BASE, "call_id": "call_1", "tool": "add"}
ADD: Final = ToolRef("add", "host", "1.0.0", "digest", "local")


def piece(text: str, step: int = 1) -> TextDelta:
    return TextDelta(**BASE, turn=1, step=step, text=text)


def invoked(message: str, failure: FailureKind | None = None) -> ToolInvoked:
    return ToolInvoked(
        **BASE,
        call_id="call_1",
        name="add",
        params={"a": 1},
        message=message,
        success=failure is None,
        failure=None if failure is None else Failure(failure, message),
    )


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


def test_a_screen_that_joins_in_the_middle_shows_what_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was written before, then the pieces that follow, and not the whole once more."""
    screen = EventScreen()
    screen.show(PartialReply(session_id="s", at=0.0, turn=1, step=1, text="It "))
    screen.show(piece("is 5."))
    screen.finish("It is 5.")

    assert capsys.readouterr().out == "It is 5.\n"


def test_each_step_has_lines_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """The text of the next request does not run on in the line of the last."""
    screen = EventScreen()
    screen.show(piece("One."))
    screen.show(piece("Two.", step=2))
    screen.finish("Two.")

    assert capsys.readouterr().out == "One.\nTwo.\n"


def thought(text: str, index: int = 0) -> ReasoningDelta:
    return ReasoningDelta(session_id="s", at=0.0, turn=1, step=1, index=index, text=text)


def hosted(**content: Any) -> HostedToolProgress:
    return HostedToolProgress(
        session_id="s",
        at=0.0,
        turn=1,
        step=1,
        call_id="ci_1",
        tool="python",
        capability="code_interpreter",
        status="in_progress",
        **content,
    )


def test_reasoning_and_the_work_of_the_provider_are_notes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A paragraph of the reasoning is one line, when it is whole; output comes line by line."""
    screen = EventScreen()
    for event in (thought("First "), thought("this."), thought("Then that.", index=1)):
        screen.show(event)
    for event in (
        hosted(),
        hosted(code="print(12)"),
        hosted(output="1"),
        hosted(output="2\nthr"),
        hosted(queries=("hours",)),
    ):
        screen.show(event)
    screen.show(piece("Done."))
    screen.finish("Done.")

    seen = capsys.readouterr()
    assert seen.out == "Done.\n"
    assert seen.err.splitlines() == [
        "thinks: First this.",
        "thinks: Then that.",
        "python: 12",
        "python: hours",
    ]


def test_an_answer_that_begins_anew_is_written_anew(capsys: pytest.CaptureFixture[str]) -> None:
    """What is void stays on the screen, on lines of its own; the answer stands whole below it."""
    screen = EventScreen()
    screen.show(piece("It was"))
    screen.show(replace(piece("It is 5."), is_restart=True))
    screen.finish("It is 5.")

    assert capsys.readouterr().out == "It was\nIt is 5.\n"


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
        (ToolProgress(**CALL, current=2.0, total=4.0), "add: 2 of 4\n"),
        (ToolProgress(**CALL, current=2.0, message="far"), "add: 2 far\n"),
        (ToolOutput(**CALL, chunk="line\n"), "add: line\n"),
        (ToolWithheld(**BASE, turn=1, tool=ADD, reason="no"), "add is unavailable: no\n"),
        (SessionOpened(**BASE, fence=1), ""),
    ],
)
def test_what_tools_do_is_beside_the_answer(
    shown: Event, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, one line each; what is not for people is left out."""
    EventScreen().show(shown)

    assert capsys.readouterr().err == line


def test_nothing_can_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The model's text, arguments, results and output are all somebody else's."""
    screen = EventScreen()
    screen.show(piece("a\x1b[2J"))
    screen.show(invoked("b\x1b]0;title\x07", "tool_error"))
    screen.show(replace(ToolOutput(**CALL, chunk="c\r\u202e"), tool="t\x9b"))
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


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (None, 'add {"a": 1} -> no (0.00 s)\n'),
        ("denied", 'add {"a": 1} denied: no (0.00 s)\n'),
        ("not_permitted", 'add {"a": 1} denied: no (0.00 s)\n'),
        ("expired", 'add {"a": 1} expired: no (0.00 s)\n'),
        ("tool_error", 'add {"a": 1} failed: no (0.00 s)\n'),
    ],
)
def test_denied_and_failed_look_different(
    failure: FailureKind | None, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """N looks: a call that somebody refused says so, and is no failure of the tool."""
    EventScreen().show(invoked("no", failure))

    assert capsys.readouterr().err == line


async def typed(
    capsys: pytest.CaptureFixture[str], script: ScriptedOpenAI, *lines: str
) -> list[str]:
    """What each line of a chat brings to the screen."""
    shown: list[str] = []
    tools = host_tool("add"), host_tool("pay", requires_approval=True)
    async with serving(*tools, adapter=scripted(script)) as runtime:
        chat = await runtime.chat("desk")
        for line in lines:
            await TerminalChat(chat, out=None).take(line)
            seen = capsys.readouterr()
            shown.append(seen.err + seen.out)
    return shown


WAITING: Final = [calls("pay", {"a": 1, "b": 2})]


async def test_no_command_goes_to_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    """N looks: `/help` and its like are answered here; an unknown one is told, with a hint."""
    script = ScriptedOpenAI()
    shown = await typed(capsys, script, "/help", "/tools", "/aprove", "/etc/hosts", "/approve")

    assert script.requests == []
    assert shown[0].split() == HELP.split()
    assert shown[1] == "add: The tool add.\npay (needs approval): The tool pay.\n"
    assert "there is no command /aprove; did you mean /approve?" in shown[2]
    assert "there is no command /etc/hosts; /help lists the commands. A prompt that" in shown[3]
    assert shown[4] == "nothing waits for approval\n"


async def test_the_help_keeps_its_columns_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """N looks: at 60 columns a line goes on beneath its text, not beneath the command."""
    monkeypatch.setenv("COLUMNS", "60")
    [shown] = await typed(capsys, ScriptedOpenAI(), "/help")

    assert max(map(len, shown.splitlines())) <= 60
    assert all(line.startswith(("/", " " * 21)) for line in shown.splitlines())


async def test_a_prompt_may_begin_with_a_slash(capsys: pytest.CaptureFixture[str]) -> None:
    """Two slashes are one, and no command."""
    script = ScriptedOpenAI([says("A file.")])
    await typed(capsys, script, "//etc/hosts is what?")

    assert script.requests[0]["input"][0]["content"][0]["text"] == "/etc/hosts is what?"


async def test_a_waiting_call_is_approved_in_the_chat(capsys: pytest.CaptureFixture[str]) -> None:
    """N looks: waiting looks like waiting, and `/approve` goes on."""
    script = ScriptedOpenAI(WAITING, [says("Paid.")])
    waiting, refused, approved = await typed(capsys, script, "Pay!", "/approve please", "/approve")

    assert 'waits for approval: pay {"a": 1, "b": 2}' in waiting
    assert "/approve or /deny [REASON] decides it" in waiting
    assert "nothing is decided" in refused
    assert 'pay {"a": 1, "b": 2} -> 3' in approved
    assert approved.endswith("Paid.\n")


async def test_a_waiting_call_is_denied_in_the_chat(capsys: pytest.CaptureFixture[str]) -> None:
    """`/deny` takes a reason, which the model reads."""
    script = ScriptedOpenAI(WAITING, [says("As you like.")])
    _, denied = await typed(capsys, script, "Pay!", "/deny not today")

    assert 'pay {"a": 1, "b": 2} denied: ' in denied
    assert "not today" in str(script.requests[1]["input"])


async def test_of_several_waiting_calls_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is decided that was not meant."""
    both = [calls("pay", {"a": at, "b": 1}, call_id=f"call_{at}") for at in (1, 2)]
    script = ScriptedOpenAI(both, [says("Done.")])
    waiting, several, unknown = await typed(capsys, script, "Pay!", "/approve", "/deny apr_none")

    assert waiting.count("waits for approval: pay") == 2
    assert "several requests wait; name one:" in several
    assert "no request apr_none waits" in unknown


async def test_a_prompt_that_failed_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """N looks: failed is not waiting, and the chat goes on."""
    failed, again = await typed(capsys, ScriptedOpenAI(), "Hello?", "Hello?")

    assert failed.startswith("failed: ")
    assert again == failed
