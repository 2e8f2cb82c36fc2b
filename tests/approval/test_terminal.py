"""The terminal approver, at a real terminal: only a typed `a` approves."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.approval.pseudo_terminal import PseudoTerminal, pseudo_terminal
from tests.approval.samples import request
from tests.helpers.child_process import PYTHON_PATH
from tests.helpers.patience import PATIENCE
from tests.helpers.screen import WIDTHS, past_the_edge, screen_lines
from toolcrib.approval.approvers import Reply
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import (
    Actor,
    Answer,
    ApprovalRequest,
    Approve,
    Authority,
    Decision,
    Deny,
)
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.pattern import Equals, Glob
from toolcrib.approval.terminal import KEYS, TerminalApprover

JO = Actor("person", "jo")
CTRL_D = "\x04"
OWNER = Authority(is_admin=True, may_approve_own=True)


def said(decision: Decision, grant: NewGrant | None = None) -> Reply:
    """The reply of the person at the terminal, who may do what the program may."""
    return Reply(decision, JO, grant, OWNER)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[PseudoTerminal]:
    """A terminal without colour, so that what is on it can be compared."""
    monkeypatch.setenv("NO_COLOR", "1")
    with pseudo_terminal() as opened:
        yield opened


def approver(terminal: PseudoTerminal) -> TerminalApprover:
    return TerminalApprover(terminal.stream, terminal.stream, user="jo")


async def settle(
    terminal: PseudoTerminal, *lines: str, asked: ApprovalRequest | None = None
) -> Reply | None:
    """Ask, type `lines` at the prompts, and return the reply."""
    asking = asyncio.create_task(approver(terminal).ask(asked or request()))
    await terminal.answer(*lines)
    return await asking


def write_editor(directory: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Make $EDITOR a program that runs `lines` of Python with `file` set to what it edits."""
    script = directory / "editor.py"
    script.write_text("\n".join(["import sys; file = sys.argv[1]", *lines]), "utf-8")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")


async def test_a_approves(terminal: PseudoTerminal) -> None:
    """The typed letter approves, and the person is recorded as the one who did."""
    assert await settle(terminal, "a") == said(Approve())


@pytest.mark.parametrize("line", ["", " ", "y", "yes", "A", "approve", "aa", "\t", "ok", "1", "ä"])
async def test_nothing_but_a_approves(terminal: PseudoTerminal, line: str) -> None:
    """R42: Enter alone and other answers are unclear, so the question is asked again."""
    assert await settle(terminal, line, line, "d", "no") == said(Deny("no"))


@pytest.mark.parametrize(("line", "note"), [("", "Enter alone decides"), ("y", "y is none of")])
async def test_an_unclear_answer_is_said_to_be_unclear(
    terminal: PseudoTerminal, line: str, note: str
) -> None:
    """The person learns that nothing was decided."""
    asking = asyncio.create_task(approver(terminal).ask(request()))
    await terminal.answer(line)

    assert note in await terminal.answer("d", "no")
    assert await asking == said(Deny("no"))


async def test_what_was_typed_before_the_question_is_no_answer(terminal: PseudoTerminal) -> None:
    """A key pressed before the call was on the screen cannot have been about it."""
    terminal.type("a\na\n")

    assert await settle(terminal, "d", "no") == said(Deny("no"))


async def test_a_pasted_text_answers_one_prompt_at_most(terminal: PseudoTerminal) -> None:
    """The second line of a paste was typed before the second prompt was on the screen."""
    assert await settle(terminal, "x\na", "d", "no") == said(Deny("no"))


@pytest.mark.parametrize(("why", "denial"), [("too big", Deny("too big")), ("", Deny())])
async def test_d_denies_and_asks_why(terminal: PseudoTerminal, why: str, denial: Deny) -> None:
    """The reason reaches the model; without one the denial stands all the same."""
    assert await settle(terminal, "d", why) == said(denial)


async def test_r_answers_in_the_tools_place(terminal: PseudoTerminal) -> None:
    """The typed JSON stands for the result; what is not JSON is said and asked again."""
    asking = asyncio.create_task(approver(terminal).ask(request()))

    await terminal.answer("r", "{broken")
    assert "this is not JSON" in await terminal.answer("r", '{"sum": [1, null]}')

    assert await asking == said(Answer({"sum": [1, None]}))


async def test_help_is_shown_and_decides_nothing(terminal: PseudoTerminal) -> None:
    """`?` explains every key."""
    asking = asyncio.create_task(approver(terminal).ask(request()))

    await terminal.answer("?")
    assert "Enter alone does nothing" in await terminal.answer("d", "no")

    assert await asking == said(Deny("no"))


async def test_e_edits_the_arguments(
    terminal: PseudoTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edited arguments are shown, confirmed by a letter and then approved; the file lay in a
    directory of the person's own.
    """
    seen = tmp_path / "seen.json"
    write_editor(
        tmp_path,
        monkeypatch,
        "import json, os, pathlib",
        "given = json.load(open(file))",
        "mode = oct(os.stat(os.path.dirname(file)).st_mode & 0o777)",
        f"pathlib.Path({str(seen)!r}).write_text(json.dumps([given, mode]))",
        "pathlib.Path(file).write_text(json.dumps(given | {'path': 'safe.txt'}))",
    )
    arguments = {"path": "\x9bevil\u202e", "n": 1}

    asking = asyncio.create_task(approver(terminal).ask(request(arguments)))
    await terminal.answer("e")
    assert "safe.txt" in await terminal.answer("a")

    assert await asking == said(Approve({"path": "safe.txt", "n": 1}))
    assert json.loads(seen.read_text("utf-8")) == [arguments, "0o700"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("'{broken'", "this is not JSON"),
        ("'[1]'", "not a JSON object"),
        ('\'{"path": "notes.txt"}\'', "nothing was changed"),
        ("'{\"n\": NaN}'", "this is not JSON"),
    ],
)
async def test_an_edit_that_cannot_be_used_is_asked_again(
    terminal: PseudoTerminal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    complaint: str,
) -> None:
    """The person reads what is wrong and is back at the question."""
    write_editor(tmp_path, monkeypatch, f"open(file, 'w').write({change})")
    asking = asyncio.create_task(approver(terminal).ask(request()))

    await terminal.answer("e")
    assert complaint in await terminal.answer("d", "no")

    assert await asking == said(Deny("no"))


async def test_an_edit_that_does_not_fit_the_tool_is_asked_again(
    terminal: PseudoTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edited arguments are checked against the tool's schema while the person is still there."""
    write_editor(tmp_path, monkeypatch, "open(file, 'w').write('{\"path\": 5}')")
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    asking = asyncio.create_task(approver(terminal).ask(request(parameters=parameters)))

    await terminal.answer("e")
    assert "are not valid: /path" in await terminal.answer("d", "no")

    assert await asking == said(Deny("no"))


@pytest.mark.parametrize("confirmation", ["", "y", "e"])
async def test_an_edit_runs_only_when_it_is_confirmed(
    terminal: PseudoTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confirmation: str
) -> None:
    """Leaving the editor is not yet an approval."""
    write_editor(tmp_path, monkeypatch, "open(file, 'w').write('{}')")

    assert await settle(terminal, "e", confirmation, "d", "no") == said(Deny("no"))


@pytest.mark.parametrize("command", ["exit", "missing", "open quote"])
async def test_an_editor_that_fails_changes_nothing(
    terminal: PseudoTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """An editor that is not there, or ends with an error, leads back to the question."""
    write_editor(tmp_path, monkeypatch, "open(file, 'w').write('{}')", "sys.exit(1)")
    editors = {"missing": str(tmp_path / "missing"), "open quote": "'vi"}
    monkeypatch.setenv("EDITOR", editors.get(command, os.environ["EDITOR"]))

    assert await settle(terminal, "e", "d", "no") == said(Deny("no"))


@pytest.mark.parametrize(
    ("lines", "grant"),
    [
        (("s", "x"), NewGrant("session", {"": Equals({"path": "notes.txt"})})),
        (("s", "t"), NewGrant("session")),
        (("s", "p", '{"/path": {"glob": "*.txt"}}'), NewGrant("session", {"/path": Glob("*.txt")})),
        (("p", "t", "8h"), NewGrant("principal", expires_in_seconds=28_800)),
        (("p", "x", "5x"), NewGrant("principal", {"": Equals({"path": "notes.txt"})}, uses=5)),
        (("w", "t", "unlimited"), NewGrant("everyone", unlimited=True)),
        (("w", "t", "8h"), NewGrant("everyone", expires_in_seconds=28_800)),
    ],
)
async def test_s_p_and_w_approve_and_grant(
    terminal: PseudoTerminal, lines: tuple[str, ...], grant: NewGrant
) -> None:
    """A standing yes says for which calls and, when it outlives the session, for how long."""
    asked = request(caller=Caller("ann"))

    assert await settle(terminal, *lines, asked=asked) == said(Approve(), grant)


@pytest.mark.parametrize(
    "lines",
    [
        ("s", ""),
        ("s", "a", ""),
        ("s", "p", ""),
        ("s", "p", '{"path": "x"}', ""),
        ("s", "p", '{"/path": {"glob": "*.md"}}', ""),
        ("w", ""),
        ("w", "t", ""),
        ("w", "t", "soon", ""),
        ("w", "t", "forever", ""),
        ("w", "t", "0x", ""),
        ("p",),
    ],
)
async def test_an_unclear_grant_is_no_approval(
    terminal: PseudoTerminal, lines: tuple[str, ...]
) -> None:
    """Enter leads back to the question, also after an invalid pattern, one that misses this very
    call, or an invalid limit.
    """
    assert await settle(terminal, *lines, "d", "no") == said(Deny("no"))


@pytest.mark.parametrize(
    ("lines", "grant"),
    [
        (("s", "y", "t"), NewGrant("session")),
        (("s", "p", "pth=*.txt", "path=*.txt"), NewGrant("session", {"/path": Glob("*.txt")})),
        (("s", "p", "{broken", "path=*.txt"), NewGrant("session", {"/path": Glob("*.txt")})),
        (("s", "p", "path=*.md", "path=*.txt"), NewGrant("session", {"/path": Glob("*.txt")})),
        (("w", "t", "soon", "8h"), NewGrant("everyone", expires_in_seconds=28_800)),
    ],
)
async def test_a_typo_is_asked_about_where_it_was_made(
    terminal: PseudoTerminal, lines: tuple[str, ...], grant: NewGrant
) -> None:
    """Looks: a typo in a pattern or a limit does not lead back to the first question."""
    assert await settle(terminal, *lines) == said(Approve(), grant)


async def test_a_wrong_edit_is_kept_for_mending(
    terminal: PseudoTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks: the next `e` starts from what was typed, not from the arguments of the call."""
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    write_editor(
        tmp_path,
        monkeypatch,
        "text = open(file).read()",
        "done = text.replace('notes.txt', 'mended.txt').replace('\"mended', 'mended')",
        "if done == text: done = text.replace('mended', '\"mended')",
        "open(file, 'w').write(done)",
    )
    asking = asyncio.create_task(approver(terminal).ask(request(parameters=parameters)))

    await terminal.answer("e")
    assert "Your text is kept" in await terminal.answer("e")
    assert "mended.txt" in await terminal.answer("a")

    assert await asking == said(Approve({"path": "mended.txt"}))


async def test_an_edit_that_was_not_confirmed_is_kept_too(
    terminal: PseudoTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever goes back to change one more thing finds what was changed before."""
    write_editor(
        tmp_path,
        monkeypatch,
        "text = open(file).read()",
        "open(file, 'w').write(text.replace('notes', 'new-notes'))",
    )

    reply = await settle(terminal, "e", "", "e", "a")

    assert reply == said(Approve({"path": "new-new-notes.txt"}))


@pytest.mark.parametrize("is_durable", [True, False])
async def test_a_grant_that_is_lost_at_the_end_says_so(
    terminal: PseudoTerminal, is_durable: bool
) -> None:
    """Newcomers 10: without a store, a grant for every session ends with the program, and the
    person reads so before they give it.
    """
    asker = TerminalApprover(terminal.stream, terminal.stream, "jo", is_durable=is_durable)
    asking = asyncio.create_task(asker.ask(request()))
    await terminal.answer("w", "t")
    shown = await terminal.see()
    terminal.type(CTRL_D)
    await asking

    assert ("ends with this program" in shown) is not is_durable


@pytest.mark.parametrize("lines", [(), ("d",), ("r",), ("s",), ("w", "t")])
async def test_the_end_of_input_leaves_the_request_open(
    terminal: PseudoTerminal, lines: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """R42: leaving is no answer at any prompt; stderr says that nothing ran."""
    asking = asyncio.create_task(approver(terminal).ask(request()))
    await terminal.answer(*lines)
    await terminal.see()
    terminal.type(CTRL_D)

    assert await asking is None
    assert "has not run" in capsys.readouterr().err


async def test_a_closed_window_leaves_the_request_open(terminal: PseudoTerminal) -> None:
    """A terminal that goes away answers nothing."""
    asking = asyncio.create_task(approver(terminal).ask(request()))
    await terminal.see()
    terminal.end_input()

    assert await asking is None


async def test_a_window_closed_while_editing_leaves_the_request_open(
    terminal: PseudoTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal that goes away under the editor answers nothing either."""
    write_editor(tmp_path, monkeypatch, "print('ready', flush=True)", "sys.stdin.read()")
    asking = asyncio.create_task(approver(terminal).ask(request()))
    await terminal.answer("e")
    await terminal.see("ready\r\n")
    terminal.end_input()

    assert await asking is None


async def test_withdrawing_from_a_closed_window_is_still_withdrawing(
    terminal: PseudoTerminal,
) -> None:
    """A screen that cannot show the note does not turn the cancellation into another error."""
    asking = asyncio.create_task(approver(terminal).ask(request()))
    await terminal.see()
    terminal.end_input()
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_without_a_terminal_nobody_is_asked(
    tmp_path: Path, terminal: PseudoTerminal, capsys: pytest.CaptureFixture[str]
) -> None:
    """R42: a file full of yeses approves nothing, and neither does a person who cannot see."""
    answers = tmp_path / "answers"
    answers.write_text("a\n" * 10, "utf-8")
    with answers.open() as file, (tmp_path / "log").open("w") as log:
        assert await TerminalApprover(file, terminal.stream, "jo").ask(request()) is None
        assert await TerminalApprover(terminal.stream, log, "jo").ask(request()) is None

    assert await TerminalApprover(file, log, "jo").ask(request()) is None
    assert capsys.readouterr().err.count("not a terminal") == 3


async def test_questions_come_one_at_a_time(terminal: PseudoTerminal) -> None:
    """Two calls that wait at once are asked about in turn, each with its own answer."""
    shared = approver(terminal)
    first = asyncio.create_task(shared.ask(request({"path": "one"})))
    second = asyncio.create_task(shared.ask(request({"path": "two"})))

    seen = await terminal.see()
    assert "one" in seen
    assert "two" not in seen
    terminal.type("a\n")
    assert "two" in await terminal.see()
    terminal.type("d\n")
    await terminal.answer("")

    assert await first == said(Approve())
    assert await second == said(Deny())


async def test_a_withdrawn_question_takes_no_later_answer(terminal: PseudoTerminal) -> None:
    """Cancelling ends the question at once and says so; the next one gets the next line."""
    shared = approver(terminal)
    withdrawn = asyncio.create_task(shared.ask(request()))
    await terminal.see()
    withdrawn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await withdrawn
    await terminal.see("withdrawn")

    asking = asyncio.create_task(shared.ask(request()))
    await terminal.answer("a")

    assert await asking == said(Approve())


async def test_a_withdrawn_question_closes_its_editor(
    terminal: PseudoTerminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelling while the person edits leaves no process behind."""
    write_editor(
        tmp_path,
        monkeypatch,
        "import os, signal",
        "print('editor', os.getpid(), 'ready', flush=True)",
        "signal.pause()",
    )
    asking = asyncio.create_task(approver(terminal).ask(request()))
    await terminal.answer("e")
    seen = await terminal.see("ready")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    with pytest.raises(ProcessLookupError):
        os.kill(int(seen.split()[-2]), 0)


async def test_untrusted_text_cannot_steer_the_terminal(terminal: PseudoTerminal) -> None:
    """Not one escape sequence of a call, a rule or a key press reaches the screen."""
    evil = "\x1b[2J\x1b]0;owned\x07\x9b1A\u202e\r\n> a approved"
    asked = request(
        {evil: evil},
        rule=evil,
        reason=evil,
        metadata={"note": evil},
        deadline=1060.0,
    )
    asking = asyncio.create_task(approver(terminal).ask(asked))
    seen = await terminal.see("? help\r\n> ")
    terminal.type("d\n")
    await terminal.answer("no")

    assert await asking == said(Deny("no"))
    assert not set(seen) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "\r\n> a approved" not in seen


@pytest.mark.wire
def test_the_default_streams_are_those_of_the_process(tmp_path: Path) -> None:
    """A program that says nothing asks on its own stdin and stderr, and leaves stdout to data."""
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio\n"
        "from tests.approval.samples import request\n"
        "from toolcrib.approval import TerminalApprover\n"
        "print(asyncio.run(TerminalApprover(user='jo').ask(request())))\n",
        "utf-8",
    )
    with (
        pseudo_terminal() as opened,
        subprocess.Popen(
            [sys.executable, str(program)],
            stdin=opened.stream,
            stdout=subprocess.PIPE,
            stderr=opened.stream,
            env=os.environ | {"PYTHONPATH": PYTHON_PATH},
            text=True,
        ) as process,
    ):
        try:
            asyncio.run(_type_a(opened))
            output, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()

    assert output == f"{said(Approve())}\n"


async def _type_a(terminal: PseudoTerminal) -> None:
    await terminal.answer("", "a")


def test_the_user_of_the_process_is_the_default_actor(
    monkeypatch: pytest.MonkeyPatch, terminal: PseudoTerminal
) -> None:
    """Without a name given, the login name is recorded."""
    monkeypatch.setenv("LOGNAME", "sam")

    async def ask() -> Reply | None:
        asking = asyncio.create_task(
            TerminalApprover(terminal.stream, terminal.stream).ask(request())
        )
        await terminal.answer("a")
        return await asking

    assert asyncio.run(ask()) == Reply(Approve(), Actor("person", "sam"), None, OWNER)


@pytest.mark.parametrize("columns", WIDTHS)
async def test_the_dialogue_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int, tmp_path: Path
) -> None:
    """Looks: neither the panel nor a question, a note or the keys break inside a word."""
    monkeypatch.setenv("NO_COLOR", "1")
    text = "a sentence of many words that has to be broken somewhere " * 4
    write_editor(tmp_path, monkeypatch, "open(file, 'w').write('{\"text\": 5}')")
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    asked = request({"text": text}, reason=text, caller=Caller("ann"), parameters=parameters)
    with pseudo_terminal(columns) as narrow:
        asker = TerminalApprover(narrow.stream, narrow.stream, "jo", is_durable=False)
        asking = asyncio.create_task(asker.ask(asked))
        typed = ("?", "y", "", "e", "w", "p", "kilos<=5", "", "w", "t", "soon", "", "d", "no")
        shown = await narrow.answer(*typed)
        assert await asking == said(Deny("no"))

    lines = screen_lines(shown)
    assert past_the_edge(shown, columns) == []
    known = {*text.split(), *(word for key in KEYS for word in key.split())}
    keys = [line for line in lines if line.startswith("a approve")]
    assert keys
    ends = [line.split()[-1].rstrip(",") for line in (*keys, *(o for o in lines if "of many" in o))]
    assert {end.removesuffix('"').removesuffix(",") for end in ends} <= known


async def test_colour_marks_what_is_asked_and_what_went_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looks: there is some colour, none of it from the call, and none with NO_COLOR."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with pseudo_terminal(80) as coloured:
        asking = asyncio.create_task(approver(coloured).ask(request({"path": "\x1b[31mred"})))
        shown = await coloured.answer("p", "d", "no")
        assert await asking == said(Deny("no"))

    assert re.search("\x1b\\[1;33m\\S+ wants to run", shown)
    assert "\x1b[31mNot done" in shown
    assert "\x1b[31mred" not in shown
    assert set(re.findall(r"\x1b\[[0-9;]*m", shown)) == {
        "\x1b[0m",
        "\x1b[1m",
        "\x1b[1;33m",
        "\x1b[31m",
    }
