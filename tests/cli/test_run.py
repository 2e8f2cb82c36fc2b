"""`toolcrib run` with a scripted model: over pipes, and at a real terminal."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.approval.pseudo_terminal import pseudo_terminal
from tests.cli.command import MAIN, PATIENCE, at_terminal, invoke, run
from toolcrib.store import SqliteStore

pytestmark = [pytest.mark.wire, pytest.mark.usefixtures("folder")]

WITH = ("--host-tools-module", "cli_tools", "--adapter", "cli_model:adapter")
STORE = ("--store", "crib.sqlite3")
CTRL_D = "\x04"


def decided(folder: Path) -> list[str]:
    """Who decided what, in the order that it was asked."""
    with SqliteStore(folder / "crib.sqlite3") as store:
        found = [filed.decided for filed in store.approvals()]
    return [f"{each.decision.kind} {each.actor.kind}" for each in found if each]


class TestOverPipes:
    def test_nothing_is_asked_and_it_waits(self, folder: Path) -> None:
        """R42: off a terminal nobody is asked: status 4, and how to go on is on stderr."""
        done = run("run", "What is 2 and 3?", *WITH, *STORE, cwd=folder)

        assert (done.returncode, done.stdout) == (4, "")
        assert 'add {"a": 2, "b": 3} -> 5' in done.stderr
        assert "toolcrib approvals approve apr_" in done.stderr
        assert "toolcrib sessions resume ses_" in done.stderr

    def test_a_waiting_prompt_goes_on_in_another_process(self, folder: Path) -> None:
        """After the yes, `sessions resume` runs the call and gives the answer; what ran before is
        not repeated.
        """
        first = json.loads(run("run", "2 and 3?", *WITH, *STORE, "--json", cwd=folder).stdout)
        [approval] = first["pending"]
        with_again = (*WITH[:3], "cli_model:again")
        waits = run("sessions", "resume", first["session_id"], *STORE, *with_again, cwd=folder)
        assert waits.returncode == 4

        assert invoke("approvals", "approve", approval, *STORE).exit_code == 0
        done = run("sessions", "resume", first["session_id"], *STORE, *with_again, cwd=folder)

        assert (done.returncode, done.stdout) == (0, "It was 5.\n")
        exported = run("sessions", "export", first["session_id"], *STORE, cwd=folder).stdout
        events = [json.loads(line) for line in exported.splitlines()]
        ran = [each["data"]["name"] for each in events if each["kind"] == "tool.invoked"]
        assert ran == ["add", "shout"]

    def test_the_prompt_may_come_on_stdin(self, folder: Path) -> None:
        """The answer is on stdout, and nothing of the model can steer a terminal."""
        done = run("run", *WITH, "--approve", "deny", cwd=folder, stdin="What is 2 and 3?")

        assert (done.returncode, done.stdout) == (0, "It is 5.\\u001b[2J\n")
        assert "shout" in done.stderr

    @pytest.mark.parametrize("mode", ["ask", "policy"])
    def test_nobody_waits_for_an_answer(self, folder: Path, mode: str) -> None:
        """R42: with an input that stays open and says nothing, it still ends by itself."""
        words = ("tools", "call", "shout", "text=hi", *WITH[:2], "--approve", mode)
        with subprocess.Popen(
            [*MAIN, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        ) as started:
            assert started.wait(PATIENCE) == 4
            assert started.stdout is not None
            assert started.stdout.read() == b""

    def test_a_question_that_nobody_sees_is_not_asked(self, folder: Path) -> None:
        """R42: somebody could type, but stderr is a file: it waits."""
        with pseudo_terminal() as terminal:
            done = subprocess.run(
                [*MAIN, "tools", "call", "shout", "text=hi", *WITH[:2]],
                stdin=terminal.stream,
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
            )

        assert (done.returncode, done.stdout) == (4, "")
        assert "wants to run" not in done.stderr

    def test_an_answer_as_json(self, folder: Path) -> None:
        """A program gets the whole result, and nothing else on stdout."""
        done = run("run", "2 and 3?", *WITH, "--approve", "deny", "--json", cwd=folder)

        told = json.loads(done.stdout)
        assert (told["status"], told["text"]) == ("completed", "It is 5.\x1b[2J")

    def test_a_session_goes_on(self, folder: Path) -> None:
        """With --session, the next prompt is in the session of before."""
        first = run("run", "2?", *WITH, *STORE, "--approve", "deny", "--json", cwd=folder)
        session = json.loads(first.stdout)["session_id"]

        again = ("--session", session, "--json")
        second = run("run", "Again?", *WITH[:3], "cli_model:again", *STORE, *again, cwd=folder)

        told = json.loads(second.stdout)
        assert (told["session_id"], told["turn"]) == (session, 2)

    def test_a_model_that_fails_is_status_1(self, folder: Path) -> None:
        """Why there is no answer stands on stderr."""
        (folder / "cli_broken.py").write_text(
            "from toolcrib.adapters.openai import OpenAIAdapter\n"
            "from toolcrib.testing import ScriptedOpenAI\n"
            "adapter = OpenAIAdapter(model='none', client=ScriptedOpenAI().client())\n",
            "utf-8",
        )

        done = run("run", "Hello?", "--adapter", "cli_broken", cwd=folder)

        assert (done.returncode, done.stdout) == (1, "")
        assert "the script is over" in done.stderr

    def test_without_a_model_it_says_what_to_name(self, folder: Path) -> None:
        """Wrong use is status 2."""
        done = run("run", "Hello?", cwd=folder)

        assert (done.returncode, done.stdout) == (2, "")
        assert "--adapter MODULE:NAME" in done.stderr

    def test_nothing_to_ask_is_wrong_use(self, folder: Path) -> None:
        """Off a terminal there is no chat: an empty stdin asks nothing."""
        done = run("run", *WITH, cwd=folder)

        assert (done.returncode, done.stdout) == (2, "")
        assert "give PROMPT" in done.stderr


class TestAtATerminal:
    async def test_a_person_is_asked_and_approves(self, folder: Path) -> None:
        """R42: the call waits for the typed letter, then the model goes on."""
        with at_terminal("run", "2 and 3?", *WITH, *STORE, cwd=folder) as started:
            await started.terminal.see("shout wants to run")
            await started.terminal.answer("a")
            await started.terminal.see("It is 5.\\u001b[2J")
            assert await started.exit_code() == 0

        assert decided(folder) == ["approve person"]

    async def test_a_person_may_deny(self, folder: Path) -> None:
        """The model reads the reason, and the prompt still has an answer."""
        with at_terminal("run", "2 and 3?", *WITH, *STORE, cwd=folder) as started:
            await started.terminal.answer("d", "not so loud")
            await started.terminal.see("not so loud")
            await started.terminal.see("It is 5.")
            assert await started.exit_code() == 0

        assert decided(folder) == ["deny person"]

    async def test_a_chat_is_one_session(self, folder: Path) -> None:
        """Line by line, with approvals between, until Ctrl-D."""
        with at_terminal("run", *WITH, *STORE, cwd=folder) as started:
            await started.terminal.see("\r\n> ")
            started.terminal.type("2 and 3?\n")
            await started.terminal.see("shout wants to run")
            await started.terminal.answer("a")
            await started.terminal.see("It is 5.")
            await started.terminal.see("\r\n> ")
            started.terminal.type("Thanks!\n")
            await started.terminal.see("You are welcome.")
            await started.terminal.see("\r\n> ")
            started.terminal.type(CTRL_D)
            assert await started.exit_code() == 0

        with SqliteStore(folder / "crib.sqlite3") as store:
            [session] = store.sessions()
        assert session.settings["turn"] == 2

    async def test_ctrl_c_interrupts(self, folder: Path) -> None:
        """Status 130: the question is withdrawn, nothing ran, and the prompt can go on later."""
        with at_terminal("run", "2 and 3?", *WITH, *STORE, cwd=folder) as started:
            await started.terminal.see("? help")
            started.process.send_signal(signal.SIGINT)
            await started.terminal.see("This question is withdrawn")
            assert await started.exit_code() == 130

        with SqliteStore(folder / "crib.sqlite3") as store:
            [session] = store.sessions()
            ran = [each.kind for each in store.records(session.session_id)].count("call.started")
            assert (ran, store.approvals(state="pending")) == (1, [])
        again = ("--adapter", "cli_model:again", *WITH[:2], *STORE)
        done = await asyncio.to_thread(
            run, "sessions", "resume", session.session_id, *again, cwd=folder
        )
        assert (done.returncode, done.stdout) == (0, "It was 5.\n")

    async def test_a_call_asks_here(self, folder: Path) -> None:
        """`tools call` asks the person at the terminal too."""
        module = ("--host-tools-module", "cli_tools")
        with at_terminal("tools", "call", "shout", "text=hi", *module, cwd=folder) as started:
            await started.terminal.answer("a")
            await started.terminal.see("HI")
            assert await started.exit_code() == 0
