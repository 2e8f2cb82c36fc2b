"""Questions of running calls: at the terminal of a command, and with commands for a server."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.cli.command import invoke
from tests.cli.test_remote import stub
from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import model
from toolcrib import Event, RuntimeConfig, ToolContext, ToolInvoked, create_runtime, tool
from toolcrib.approval.console import Console
from toolcrib.cli.call_progress import CallScreen, with_progress
from toolcrib.cli.event_screen import EventScreen
from toolcrib.cli.question_prompt import TerminalAnswers
from toolcrib.errors import EndOfInput
from toolcrib.ledger.question_events import QuestionAsked
from toolcrib.runtime.runtime import Runtime
from toolcrib.testing import calls, says

ENV = {"TOOLCRIB_TOKEN": "t" * 32}


@dataclass
class Trip:
    city: str
    nights: int = 1


class Typist(Console):
    """A terminal at which lines are typed one after the other."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.shown: list[str] = []

    async def ask(self, question: str) -> str:
        self.shown.append(question)
        if not self._lines:
            raise EndOfInput
        return self._lines.pop(0)

    def say(self, text: str, style: str | None = None, *, hanging: str = "") -> None:
        self.shown.append(text)


def asking(answer: Any, **options: Any) -> Runtime:
    @tool
    async def pick(ctx: ToolContext) -> str:
        """Ask."""
        return f"took {await ctx.ask('Which one?', answer, **options)}"

    adapter = model([calls("pick", {})], [says("Done.")])
    return create_runtime(RuntimeConfig(tools=[pick], adapter=adapter, drain_seconds=0.1))


async def result_of(runtime: Runtime, console: Console | None) -> str:
    """What the tool said, when a turn is followed and answered at a terminal."""
    heard: list[ToolInvoked] = []
    async with runtime, asyncio.timeout(PATIENCE):
        chat = await runtime.chat("desk")
        answers = TerminalAnswers(chat, console)
        async for event in chat.send("Go!"):
            if isinstance(event, Event):
                answers.take(event)
            if isinstance(event, ToolInvoked):
                heard.append(event)
        await answers.close()
    return heard[0].message


class TestTerminal:
    @pytest.mark.parametrize(
        ("answer", "lines", "told"),
        [
            (str, ["main"], "took main"),
            (str, ["", "main"], "took main"),
            (int, ["seven", "7"], "took 7"),
            (bool, ["yes"], "took True"),
            (bool, ["2"], "took False"),
            (Literal["main", "savings"], ["third", "2"], "took savings"),
            (Literal["main", "savings"], ["SAVINGS"], "took savings"),
            (Trip, ["Bern", ""], "took Trip(city='Bern', nights=1)"),
            (Trip, ["Bern", "3"], "took Trip(city='Bern', nights=3)"),
            (list[int], ["[1, 2]"], "took [1, 2]"),
            (str, ["/decline"], "was declined"),
            (Trip, ["Bern", "/decline"], "was declined"),
            (str, [], "the terminal was closed"),
        ],
    )
    async def test_what_is_typed_is_the_answer(
        self, answer: Any, lines: list[str], told: str
    ) -> None:
        """Every type can be typed; what does not fit is asked again, and Enter answers nothing."""
        console = Typist(*lines)

        assert told in await result_of(asking(answer), console)
        assert console.shown[0] == "pick asks: Which one?"

    async def test_a_fault_is_shown_before_it_is_asked_again(self) -> None:
        """A person reads what was wrong."""
        console = Typist("seven", "7")
        await result_of(asking(int), console)

        assert any("integer" in line for line in console.shown)

    async def test_without_a_terminal_it_is_declined_at_once(self) -> None:
        """A command in a pipe never hangs on a question."""
        assert "nobody is at a terminal" in await result_of(asking(str), None)

    async def test_a_followed_turn_asks(self, capsys: pytest.CaptureFixture[str]) -> None:
        """`toolcrib run` in a pipe goes on to the answer of the model."""
        async with asking(str) as runtime, asyncio.timeout(PATIENCE):
            chat = await runtime.chat("desk")
            result = await EventScreen().follow(chat.send("Go!"), chat)

        assert result.text == "Done."
        assert "nobody is at a terminal" in capsys.readouterr().err

    async def test_a_followed_call_asks(self) -> None:
        """So does `toolcrib tools call`."""
        async with asking(str) as runtime, asyncio.timeout(PATIENCE):
            session_id = (await runtime.create_session()).session_id
            result = await with_progress(
                runtime, session_id, lambda: runtime.call_tool(session_id, "pick")
            )

        assert result.failure is not None
        assert result.failure.kind == "denied"


def facts(**more: Any) -> dict[str, Any]:
    return {
        "question_id": "qst_1",
        "session_id": "s",
        "call_id": "c",
        "tool": "pick",
        "text": "Which account?",
        "schema": {"type": "string"},
        "created_at": 1.0,
        "deadline": None,
        "is_secret": False,
        "parent_call_id": None,
        "turn": 0,
        "caller": {"principal": "ann", "groups": [], "transport": "http", "is_model": False},
        **more,
    }


@pytest.mark.usefixtures("folder")
class TestCommands:
    def test_questions_are_listed(self) -> None:
        """Which tool of whose call asks what."""
        with stub(body={"questions": [facts()]}) as server:
            done = invoke("questions", "list", "--url", server.url, env=ENV)

        assert done.exit_code == 0, done.stderr
        for word in ("qst_1", "pick", "ann", "Which account?"):
            assert word in done.stdout

    def test_the_list_is_json_for_programs(self) -> None:
        """Programs get every field."""
        with stub(body={"questions": [facts()]}) as server:
            done = invoke("questions", "list", "--json", "--url", server.url, env=ENV)

        assert json.loads(done.stdout) == [facts()]

    def test_without_a_server_there_is_nothing_to_ask(self) -> None:
        """A question lives in the process that runs its call."""
        done = invoke("questions", "list")

        assert done.exit_code == 2
        assert "--url" in done.stderr

    @pytest.mark.parametrize(
        ("schema", "typed", "value"),
        [
            ({"type": "string"}, "7", "7"),
            ({"type": "integer"}, "7", 7),
            ({"type": "boolean"}, "Yes", True),
            ({"type": "boolean"}, "false", False),
        ],
    )
    def test_an_answer_is_read_by_its_schema(self, schema: Any, typed: str, value: Any) -> None:
        """Text stays text; anything else is what its schema says."""
        answer = {"question_id": "qst_1", "session_id": "s", "call_id": "c", "action": "answer"}
        with stub(body={"questions": [facts(schema=schema)], **answer}) as server:
            done = invoke("questions", "answer", "qst_1", typed, "--url", server.url, env=ENV)

        method, path, _, body = server.seen[-1]
        assert done.exit_code == 0, done.stderr
        assert (method, path) == ("POST", "/v1/questions/qst_1/answer")
        assert json.loads(body)["value"] == value

    def test_a_question_is_declined_with_a_reason(self) -> None:
        """The tool is told why."""
        answer = {"question_id": "qst_1", "session_id": "s", "call_id": "c", "action": "decline"}
        with stub(body=answer) as server:
            done = invoke(
                "questions", "decline", "qst_1", "--reason", "no", "--url", server.url, env=ENV
            )

        assert done.exit_code == 0, done.stderr
        assert json.loads(server.seen[-1][3]) == {"action": "decline", "reason": "no"}

    def test_an_unknown_question_is_said_so(self) -> None:
        """Nothing is answered in its place."""
        with stub(body={"questions": []}) as server:
            done = invoke("questions", "answer", "qst_9", "x", "--url", server.url, env=ENV)

        assert done.exit_code == 1
        assert "no open question qst_9" in done.stderr


def test_the_line_of_a_call_gives_way_to_a_question(tmp_path: Path) -> None:
    """What a person types is not written over."""
    from tests.transports.mcp.test_questions import question_of

    with (tmp_path / "screen").open("w") as stream:
        screen = CallScreen(stream)
        question = question_of(str)
        screen.show(QuestionAsked(session_id="s", at=1.0, call_id="c", question=question))
        screen.refresh()

    assert (tmp_path / "screen").read_text() == ""
