"""`toolcrib run` with a scripted model: over pipes, and at a real terminal."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.approval.pseudo_terminal import pseudo_terminal
from tests.cli.command import MAIN, PATIENCE, at_terminal, environment, invoke, run, serving
from tests.helpers.child_process import child_process
from toolcrib.store import SqliteStore

pytestmark = pytest.mark.usefixtures("folder")

WITH = ("--host-tools-module", "cli_tools", "--adapter", "cli_model:adapter")
AGAIN = ("--host-tools-module", "cli_tools", "--adapter", "cli_model:again")
STORE = ("--store", "crib.sqlite3")
CTRL_D = "\x04"


def decided(folder: Path) -> list[str]:
    """Who decided what, in the order that it was asked."""
    with SqliteStore(folder / "crib.sqlite3") as store:
        found = [filed.decided for filed in store.approvals().items]
    return [f"{each.decision.kind} {each.actor.kind}" for each in found if each]


class TestOneAnswer:
    def test_nothing_is_asked_and_it_waits(self) -> None:
        """R42: off a terminal nobody is asked: status 4, and how to go on is on stderr."""
        done = invoke("run", "What is 2 and 3?", *WITH, *STORE)

        assert (done.exit_code, done.stdout) == (4, "")
        assert 'add {"a": 2, "b": 3} -> 5' in done.stderr
        assert "toolcrib approvals approve apr_" in done.stderr
        assert "toolcrib sessions resume ses_" in done.stderr

    def test_without_a_store_nobody_else_could_approve(self) -> None:
        """What waits in memory is lost, and it says so."""
        done = invoke("run", "What is 2 and 3?", *WITH)

        assert done.exit_code == 4
        assert "--store FILE" in done.stderr

    def test_a_waiting_prompt_goes_on_in_another_runtime(self) -> None:
        """After the yes, `sessions resume` runs the call and gives the answer; what ran before is
        not repeated.
        """
        first = json.loads(invoke("run", "2 and 3?", *WITH, *STORE, "--json").stdout)
        [approval] = first["pending"]
        resume = ("sessions", "resume", first["session_id"], *STORE, *AGAIN)
        assert invoke(*resume).exit_code == 4

        assert invoke("approvals", "approve", approval, *STORE).exit_code == 0
        done = invoke(*resume)

        assert (done.exit_code, done.stdout) == (0, "It was 5.\n")
        exported = invoke("sessions", "export", first["session_id"], *STORE).stdout
        told = [json.loads(line) for line in exported.splitlines()]
        ran = [each["data"]["name"] for each in told if each["kind"] == "tool.invoked"]
        assert ran == ["add", "shout"]

    @pytest.mark.wire
    def test_a_resumed_prompt_goes_on_after_the_decision(self, folder: Path) -> None:
        """F17: with --wait nobody repeats the command after the yes."""
        first = json.loads(invoke("run", "2 and 3?", *WITH, *STORE, "--json").stdout)
        words = ("sessions", "resume", first["session_id"], *STORE, *AGAIN, "--wait")
        with child_process([*MAIN, *words], cwd=folder, env=environment()) as started:
            approval = started.stderr.next_line("toolcrib approvals approve").split()[3]
            assert invoke("approvals", "approve", approval, *STORE).exit_code == 0
            assert started.wait() == 0
        assert started.stdout.text == "It was 5.\n"

    def test_what_tools_print_is_no_answer(self) -> None:
        """Their prints go to stderr; stdout has the model's text alone."""
        done = invoke("run", "Hush!", *WITH[:3], "cli_model:noisy")

        assert (done.exit_code, done.stdout) == (0, "Quiet.\n")
        assert "chatter\n" in done.stderr

    def test_an_answer_as_json(self) -> None:
        """A program gets the whole result, and nothing else on stdout."""
        done = invoke("run", "2 and 3?", *WITH, "--approve", "deny", "--json")

        told = json.loads(done.stdout)
        assert (told["status"], told["text"]) == ("completed", "It is 5.\x1b[2J")

    def test_instructions_are_the_models_and_not_the_users(self) -> None:
        """N11: `--instructions` have a place of their own; the prompt is the user's words."""
        invoke("run", "2 and 3?", *WITH, "--approve", "deny", "--instructions", "Be polite.")

        requests = sys.modules["cli_model"].script.requests
        assert {request["instructions"] for request in requests} == {"Be polite."}
        assert requests[0]["input"][0]["content"][0]["text"] == "2 and 3?"

    def test_a_session_goes_on(self) -> None:
        """With --session, the next prompt is in the session of before."""
        first = invoke("run", "2?", *WITH, *STORE, "--approve", "deny", "--json")
        session = json.loads(first.stdout)["session_id"]

        second = invoke("run", "Again?", *AGAIN, *STORE, "--session", session, "--json")

        told = json.loads(second.stdout)
        assert (told["session_id"], told["turn"]) == (session, 2)

    def test_a_session_that_is_not_there_fails(self) -> None:
        """A mistyped session is an error on stderr."""
        done = invoke("run", "2?", *WITH, *STORE, "--session", "ses_none")

        assert (done.exit_code, done.stdout) == (1, "")
        assert "there is no session 'ses_none'" in done.stderr

    def test_a_model_that_fails_is_status_1(self) -> None:
        """Why there is no answer stands on stderr."""
        done = invoke("run", "Hello?", "--adapter", "cli_model:mute")

        assert (done.exit_code, done.stdout) == (1, "")
        assert "the script is over" in done.stderr

    def test_without_a_model_it_says_what_to_name(self) -> None:
        """Wrong use is status 2."""
        done = invoke("run", "Hello?")

        assert (done.exit_code, done.stdout) == (2, "")
        assert "--adapter MODULE:NAME" in done.stderr
        assert "--url URL" in done.stderr

    @pytest.mark.parametrize(
        "option", [("--approve", "deny"), ("--instructions", "Be kind."), ("--store", "x.db")]
    )
    def test_nothing_is_accepted_that_a_server_would_ignore(self, option: tuple[str, str]) -> None:
        """F14: what is the server's to decide is refused as wrong use."""
        done = invoke("run", "Hello?", "--url", "http://127.0.0.1:1", *option)

        assert (done.exit_code, done.stdout) == (2, "")

    def test_what_is_no_adapter_is_told(self) -> None:
        """Status 1, with what to write instead."""
        done = invoke("run", "Hello?", "--adapter", "cli_model:script")

        assert done.exit_code == 1
        assert "MODULE:NAME" in done.stderr

    def test_nothing_to_ask_is_wrong_use(self) -> None:
        """Off a terminal there is no chat: an empty stdin asks nothing."""
        done = invoke("run", *WITH)

        assert (done.exit_code, done.stdout) == (2, "")
        assert "give PROMPT" in done.stderr


@pytest.mark.wire
class TestOverPipes:
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


@pytest.mark.slow
class TestAtATerminal:
    async def test_a_person_is_asked_and_approves(self, folder: Path) -> None:
        """R42: the call waits for the typed letter, then the model goes on."""
        with at_terminal("run", "2 and 3?", *WITH, *STORE, cwd=folder) as started:
            await started.see("shout wants to run")
            await started.answer("a")
            await started.see("It is 5.\\u001b[2J")
            assert await started.exit_code() == 0

        assert decided(folder) == ["approve person"]

    async def test_a_person_may_deny(self, folder: Path) -> None:
        """The model reads the reason, and the prompt still has an answer."""
        with at_terminal("run", "2 and 3?", *WITH, *STORE, cwd=folder) as started:
            await started.answer("d", "not so loud")
            await started.see("not so loud")
            await started.see("It is 5.")
            assert await started.exit_code() == 0

        assert decided(folder) == ["deny person"]

    async def test_a_chat_is_one_session(self, folder: Path) -> None:
        """Line by line, with approvals between, until Ctrl-D."""
        with at_terminal("run", *WITH, *STORE, cwd=folder) as started:
            await started.see("\r\n> ")
            started.terminal.type("2 and 3?\n")
            await started.see("shout wants to run")
            await started.answer("a")
            await started.see("It is 5.")
            await started.see("\r\n> ")
            started.terminal.type("Thanks!\n")
            await started.see("You are welcome.")
            await started.see("\r\n> ")
            started.terminal.type("/tools\n")
            await started.see("shout (needs approval): Shout a text.")
            await started.see("\r\n> ")
            started.terminal.type(CTRL_D)
            assert await started.exit_code() == 0

        with SqliteStore(folder / "crib.sqlite3") as store:
            [session] = store.sessions().items
        assert session.settings["turn"] == 2

    async def test_ctrl_c_interrupts(self, folder: Path) -> None:
        """Status 130: the question is withdrawn, nothing ran, and the prompt can go on later."""
        with at_terminal("run", "2 and 3?", *WITH, *STORE, cwd=folder) as started:
            await started.see("? help")
            started.process.send_signal(signal.SIGINT)
            await started.see("This question is withdrawn")
            assert await started.exit_code() == 130

        with SqliteStore(folder / "crib.sqlite3") as store:
            [session] = store.sessions().items
            ran = [each.kind for each in store.records(session.session_id)].count("call.started")
            assert (ran, store.approvals(state="pending").items) == (1, ())
        resume = ("sessions", "resume", session.session_id, *AGAIN, *STORE)
        done = await asyncio.to_thread(run, *resume, cwd=folder)
        assert (done.returncode, done.stdout) == (0, "It was 5.\n")

    async def test_a_call_asks_here(self, folder: Path) -> None:
        """`tools call` asks the person at the terminal too."""
        module = ("--host-tools-module", "cli_tools")
        with at_terminal("tools", "call", "shout", "text=hi", *module, cwd=folder) as started:
            await started.answer("a")
            await started.see("HI")
            assert await started.exit_code() == 0


@pytest.mark.slow
class TestAtAServer:
    async def test_one_prompt_is_answered_there(self, folder: Path) -> None:
        """The model and the tools are the server's; what waits is told with how to decide it."""
        async with serving(*WITH, *STORE, cwd=folder) as served:
            words = ("run", "2 and 3?", "--url", served.url, "--token-file", "token")
            done = await asyncio.to_thread(run, *words, cwd=folder)

        assert done.returncode == 4
        assert 'add {"a": 2, "b": 3} -> 5' in done.stderr
        assert f"--url {served.url} --token-file FILE" in done.stderr

    async def test_a_chat_decides_there(self, folder: Path) -> None:
        """N looks: `/approve` in a chat with a server, and the answer follows."""
        async with serving(*WITH, *STORE, cwd=folder) as served:
            words = ("run", "--url", served.url, "--token-file", "token")
            with at_terminal(*words, cwd=folder) as started:
                await started.see("\r\n> ")
                started.terminal.type("2 and 3?\n")
                await started.see('waits for approval: shout {"text": "five"}')
                await started.see("\r\n> ")
                started.terminal.type("/approve\n")
                await started.see("It is 5.")
                await started.see("\r\n> ")
                started.terminal.type("/exit\n")
                assert await started.exit_code() == 0

        assert decided(folder) == ["approve person"]
