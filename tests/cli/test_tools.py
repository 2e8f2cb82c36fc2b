"""`toolcrib tools`: what is there, and calling it, with an exit status for every end."""

import json
import signal
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.command import MAIN, at_terminal, environment, invoke
from tests.helpers.child_process import child_process
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.record import events
from toolcrib.store import SqliteStore

pytestmark = pytest.mark.usefixtures("folder")

MODULE = ("--host-tools-module", "cli_tools")


def call(*words: str) -> Result:
    return invoke("tools", "call", *words, *MODULE)


class TestSeeing:
    def test_tools_are_listed(self) -> None:
        """R37: each with its source, and whether it asks; in a pipe, one a line and uncut."""
        lines = invoke("tools", "list", *MODULE).stdout.splitlines()

        assert lines == [
            "add\thost\tno\tAdd two numbers.",
            "shout\thost\tasks\tShout a text.",
            "chatter\thost\tno\tPrint where answers go.",
            "linger\thost\tno\tNever end.",
            "hack\thost\tno\tWrite what a terminal would obey.",
        ]

    def test_the_policy_says_what_asks(self, folder: Path) -> None:
        """Looks: with a policy the rules count, and what depends on the call is marked."""
        (folder / "policy.yaml").write_text(
            "version: 1\nrules:\n"
            "  - deny: hack\n"
            "  - allow: shout\n"
            "  - ask: add\n    arguments: {/a: {min: 10}}\n"
            '  - allow: "*"\n'
        )
        lines = invoke("tools", "list", *MODULE, "--policy", "policy.yaml").stdout.splitlines()

        assert [line.split("\t")[2] for line in lines[:5]] == ["no*", "no", "no", "no", "denied"]
        assert "policy explain" in lines[5]

    def test_a_broken_policy_is_told(self, folder: Path) -> None:
        """No list that a policy could contradict."""
        (folder / "policy.yaml").write_text("rules: nothing")
        done = invoke("tools", "list", *MODULE, "--policy", "policy.yaml")

        assert (done.exit_code, done.stdout) == (1, "")
        assert "policy.yaml" in done.stderr

    def test_one_source_only(self) -> None:
        """Looks: of many mounted tools, those of one source."""
        assert invoke("tools", "list", *MODULE, "--source", "host").stdout.count("\n") == 5
        assert invoke("tools", "list", *MODULE, "--source", "mcp:files").stdout == ""
        listed = invoke("tools", "list", *MODULE, "--source", "mcp:files", "--json").stdout
        assert json.loads(listed)["tools"] == []

    def test_a_list_as_json(self) -> None:
        """R37, R47: a program gets what every transport tells of a tool."""
        found = json.loads(invoke("tools", "list", *MODULE, "--json").stdout)

        assert [each["name"] for each in found["tools"]] == [
            "add",
            "shout",
            "chatter",
            "linger",
            "hack",
        ]
        assert found["tools"][0]["parameters"]["required"] == ["a", "b"]
        assert found["unavailable"] == {}

    def test_one_tool_is_shown_with_its_schema(self) -> None:
        """What it takes, and who made it."""
        done = invoke("tools", "show", "add", *MODULE)

        assert "source:            host" in done.stdout
        assert "  a: integer; One." in done.stdout
        assert '"a"' in done.stdout
        shown = json.loads(invoke("tools", "show", "add", *MODULE, "--json").stdout)
        assert shown["parameters"]["properties"]["a"]["type"] == "integer"

    def test_without_tools_it_says_what_to_name(self) -> None:
        """Wrong use is status 2, and the error says what to do."""
        done = invoke("tools", "list")

        assert (done.exit_code, done.stdout) == (2, "")
        assert "--host-tools FILE" in done.stderr

    @pytest.mark.parametrize("option", ["--host-tools", "--store", "--policy"])
    def test_a_server_has_its_own_tools_and_policy(self, option: str) -> None:
        """What would not be looked at is wrong use, so that nobody believes in it."""
        done = invoke("tools", "call", "add", "--url", "http://127.0.0.1:1", option, "file")

        assert done.exit_code == 2
        assert "--url uses a server" in done.stderr

    def test_an_unknown_tool_fails(self) -> None:
        """A mistyped tool is an error on stderr."""
        for command in ("show", "call"):
            done = invoke("tools", command, "ad", *MODULE)

            assert (done.exit_code, done.stdout) == (1, "")
            assert "the session has no tool 'ad'; did you mean 'add'?" in done.stderr

    def test_a_tool_like_no_other_suggests_nothing(self) -> None:
        """A wrong guess is worse than none."""
        assert "did you mean" not in invoke("tools", "show", "delete_files", *MODULE).stderr


class TestCalling:
    def test_words_are_read_by_the_schema(self) -> None:
        """`key=value` is a number where the schema says so."""
        done = call("add", "a=2", "b=3")

        assert (done.exit_code, done.stdout) == (0, "5\n")

    def test_arguments_as_json(self) -> None:
        """All arguments at once, and the whole result for a program."""
        done = call("add", "--arguments", '{"a": 2, "b": 3}', "--json")

        told = json.loads(done.stdout)
        assert (told["status"], told["value"]) == ("completed", 5)

    def test_invalid_arguments_are_told_by_pointer(self) -> None:
        """R45: the handler is not called, and stderr names what was wrong."""
        done = call("add", "a=two", "b=3")

        assert (done.exit_code, done.stdout) == (1, "")
        assert "invalid_arguments" in done.stderr
        assert "/a" in done.stderr

    @pytest.mark.parametrize(
        "words",
        [("a",), ("=2",), ("a=1", "a=2"), ("a=1", "--arguments", "{}"), ("--arguments", "[1]")],
    )
    def test_words_that_cannot_be_read_are_wrong_use(self, words: tuple[str, ...]) -> None:
        """Status 2: the tool was never asked for."""
        assert call("add", *words).exit_code == 2

    def test_a_denied_call_has_its_own_status(self) -> None:
        """R42: nobody is asked, so it did not run: status 3."""
        done = call("shout", "text=hi", "--approve", "deny")

        assert (done.exit_code, done.stdout) == (3, "")
        assert "denied" in done.stderr

    def test_a_policy_that_refuses_is_a_denial(self, folder: Path) -> None:
        """A rule's no is status 3 like a person's."""
        (folder / "no.yaml").write_text("version: 1\nrules:\n  - deny: add\n", "utf-8")

        done = call("add", "a=2", "b=3", "--policy", "no.yaml", "--json")

        assert done.exit_code == 3
        assert json.loads(done.stdout)["failure"]["kind"] == "not_permitted"

    def test_a_waiting_call_is_taken_up_again(self) -> None:
        """R42: status 4 and how to go on; after the yes, the same call runs."""
        store = ("--store", "crib.sqlite3")
        waiting = call("shout", "text=hi", *store, "--json")
        assert waiting.exit_code == 4
        told = json.loads(waiting.stdout)
        assert f"toolcrib approvals approve {told['approval_id']} --store crib.sqlite3" in (
            waiting.stderr
        )
        session = waiting.stderr.split("--session ")[1].split()[0]

        assert invoke("approvals", "approve", told["approval_id"], *store).exit_code == 0
        again = ("--session", session, "--call-id", told["call_id"])
        done = call("shout", "text=hi", *store, *again)

        assert (done.exit_code, done.stdout) == (0, "HI\n")

    @pytest.mark.wire
    def test_a_call_goes_on_after_the_decision(self, folder: Path) -> None:
        """F17: with --wait nobody repeats the command after the yes."""
        store = ("--store", "crib.sqlite3")
        words = ("tools", "call", "shout", "text=hi", *MODULE, *store, "--wait")
        with child_process([*MAIN, *words], cwd=folder, env=environment()) as started:
            approval = started.stderr.next_line("toolcrib approvals approve").split()[3]
            assert invoke("approvals", "approve", approval, *store).exit_code == 0
            assert started.wait() == 0
        assert started.stdout.text == "HI\n"

    @pytest.mark.wire
    def test_ctrl_c_leaves_the_call_waiting(self, folder: Path) -> None:
        """Whoever stops waiting loses nothing: status 4, and the call can be taken up."""
        store = ("--store", "crib.sqlite3")
        words = ("tools", "call", "shout", "text=hi", *MODULE, *store, "--wait")
        with child_process([*MAIN, *words], cwd=folder, env=environment()) as started:
            started.stderr.next_line("Ctrl-C leaves the call waiting")
            started.send_signal(signal.SIGINT)
            assert started.wait() == 4
        assert "--call-id" in started.stderr.text
        assert len(json.loads(invoke("approvals", "list", *store, "--json").stdout)) == 1

    def test_waiting_needs_a_place_to_decide_at(self) -> None:
        """What waits in memory could be decided by nobody else."""
        done = call("shout", "text=hi", "--wait")

        assert done.exit_code == 2
        assert "--store FILE or --url URL" in done.stderr

    def test_without_a_store_nobody_else_could_approve(self) -> None:
        """What waits in memory is lost, and it says so."""
        done = call("shout", "text=hi")

        assert done.exit_code == 4
        assert "--store FILE" in done.stderr

    def test_what_modules_and_tools_print_is_no_answer(self) -> None:
        """Their prints go to stderr, so that stdout is what was asked for."""
        done = call("chatter", "--json")

        assert json.loads(done.stdout)["value"] == "done"
        assert done.stderr == "loading\nchatter\n"

    @pytest.mark.wire
    def test_ctrl_c_stops_the_call(self, folder: Path) -> None:
        """Status 130 at once, and the ledger says that it was cancelled."""
        words = ("tools", "call", "linger", *MODULE, "--store", "crib.sqlite3")
        with child_process([*MAIN, *words], cwd=folder) as started:
            assert [started.stderr.next_line() for _ in range(2)] == ["loading\n", "lingering\n"]
            started.send_signal(signal.SIGINT)
            assert started.wait() == 130

        with SqliteStore(folder / "crib.sqlite3") as store:
            [session] = store.sessions().items
            found = list(events(store.records(session.session_id)))
        assert isinstance(found[-1], ToolInvoked)
        assert found[-1].failure is not None
        assert found[-1].failure.kind == "cancelled"

    def test_output_cannot_steer_the_terminal(self) -> None:
        """Control characters that a tool gives are written out, as text and as JSON."""
        done = call("hack")
        as_json = call("hack", "--json")

        assert done.stdout == "safe\\u001b[2Jcleared\\u009bm\\u202eback\n"
        assert json.loads(as_json.stdout)["value"] == "safe\x1b[2Jcleared\x9bm\u202eback"
        for unsafe in ("\x1b", "\x9b", "\u202e"):
            assert unsafe not in as_json.stdout

    def test_tabs_of_a_result_are_data(self, folder: Path) -> None:
        """A table that a tool gives arrives in a pipe as it is."""
        code = (
            '\nfrom toolcrib import tool\n\n\n@tool\ndef table() -> str:\n    """Give a table."""\n'
        )
        (folder / "table_tools.py").write_text(code + '    return "a\\tb\\n1\\t2"\n', "utf-8")

        done = invoke("tools", "call", "table", "--host-tools-module", "table_tools")

        assert done.stdout == "a\tb\n1\t2\n"


@pytest.mark.wire
async def test_newcomers_10_a_grant_without_a_store_says_how_long_it_lasts(folder: Path) -> None:
    """Newcomers 10: at the terminal of the command, before the grant is given."""
    with at_terminal("tools", "call", "shout", "text=hi", *MODULE, cwd=folder) as started:
        await started.answer("w", "t")
        await started.see("this grant ends with this program")
        await started.answer("unlimited")
        await started.see("HI")
        assert await started.exit_code() == 0


def test_a_result_that_was_cut_can_be_printed_whole(folder: Path) -> None:
    """The command that `tools call` names prints what the model did not see."""
    code = '\nfrom toolcrib import tool\n\n\n@tool\ndef much() -> str:\n    """Give much."""\n'
    (folder / "much_tools.py").write_text(code + '    return "x" * 400\n', "utf-8")
    store = folder / "crib.sqlite3"
    limit = ("--set", "limits.call.max_result_chars=300")
    (folder / "toolcrib.yaml").write_text("tools: {modules: [much_tools]}\n", "utf-8")
    called = invoke(*limit, "tools", "call", "much", "--store", store)
    [hint] = [line for line in called.stderr.splitlines() if line.startswith("the whole result: ")]

    printed = invoke(*hint.removeprefix("the whole result: toolcrib ").split())

    assert "x" * 400 not in called.stdout
    assert printed.stdout == "x" * 400 + "\n"
