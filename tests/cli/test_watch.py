"""`toolcrib approvals watch`: new requests as they come, and the decision where they are seen."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import MAIN, AtTerminal, at_terminal, environment, run, serving
from tests.helpers.patience import PATIENCE
from tests.helpers.screen import WIDTHS, past_the_edge, screen_lines
from toolcrib.approval.approvers import Reply
from toolcrib.approval.decision import Actor, Approve
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.pattern import Equals
from toolcrib.cli.approval_watch import decision_params, print_requests, request_of
from toolcrib.errors import InvalidDecision, Refused

STORE = ("--store", "crib.sqlite3")
MODULE = ("--host-tools-module", "cli_tools")
FACTS: dict[str, Any] = {
    "approval_id": "apr_1",
    "session_id": "ses_1",
    "call_id": "c1",
    "tool": "shout",
    "tool_source": "host",
    "tool_version": "1.0.0",
    "place": "local",
    "arguments": {"text": "hi"},
    "digest": "d",
    "rule": "requires_approval",
    "reason": "It does.",
    "created_at": 0.0,
    "deadline": None,
    "parameters": {},
    "metadata": None,
    "changes": [],
    "caller": {"principal": "ann", "transport": "http", "is_model": False, "groups": []},
    "approvers": [],
}


class Inbox:
    """Requests that come and go as a test says; then it is cancelled."""

    def __init__(self, *answers: list[dict[str, Any]] | Refused) -> None:
        self._answers = iter(answers)

    async def pending(self) -> list[dict[str, Any]]:
        answer = next(self._answers, None)
        if answer is None:
            raise asyncio.CancelledError
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def decide(self, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("a look decides nothing")


async def at_once(seconds: float) -> None:
    """Do not wait between two looks."""


def other(name: str) -> dict[str, Any]:
    return {**FACTS, "approval_id": name}


class TestLooking:
    async def test_each_request_is_shown_once(self) -> None:
        """Also when it is still pending at the next look, and at the one after."""
        shown: list[str] = []
        inbox = Inbox([FACTS], [FACTS, other("apr_2")], [other("apr_2")])

        with pytest.raises(asyncio.CancelledError):
            await print_requests(
                inbox, lambda facts: shown.append(facts["approval_id"]), shown.append, at_once
            )

        assert shown == ["apr_1", "apr_2"]

    async def test_a_server_that_goes_away_is_waited_for(self) -> None:
        """It is said once that it is away, and once that it is back."""
        away = Refused("unavailable", "gone")
        told: list[str] = []
        shown: list[str] = []

        with pytest.raises(asyncio.CancelledError):
            await print_requests(
                Inbox([], away, away, [FACTS]),
                lambda facts: shown.append(facts["approval_id"]),
                told.append,
                at_once,
            )

        assert shown == ["apr_1"]
        assert [text.split(";")[0] for text in told] == ["no answer: gone", "it answers again"]

    @pytest.mark.parametrize(
        "answers",
        [(Refused("unavailable", "gone"),), ([], Refused("forbidden", "not yours"))],
    )
    async def test_what_will_not_pass_ends_it(self, answers: tuple[Any, ...]) -> None:
        """A server that was never there, and one that does not let this person look."""
        with pytest.raises(Refused):
            await print_requests(Inbox(*answers), lambda _: None, lambda _: None, at_once)


def test_a_grant_that_cannot_be_written_down_is_not_given() -> None:
    """Patterns by pointer cannot say that there is nothing else, so "exactly these" is refused
    rather than widened.
    """
    exactly = NewGrant("session", {"": Equals({"text": "hi"})})
    request = request_of(FACTS)

    with pytest.raises(InvalidDecision, match="exactly these arguments"):
        decision_params(request, Reply(Approve(), Actor("person", "jo"), exactly))
    plain = decision_params(request, Reply(Approve({"text": "ho"}), Actor("person", "jo")))
    assert plain == {
        "approval_id": "apr_1",
        "digest": "d",
        "decision": "approve",
        "arguments": {"text": "ho"},
    }


def ask(folder: Path, text: str) -> str:
    """Have a call wait; its id."""
    called = run("tools", "call", "shout", f"text={text}", *MODULE, *STORE, "--json", cwd=folder)
    return json.loads(called.stdout)["approval_id"]


def states(folder: Path) -> dict[str, str | None]:
    """How each request ended, by its id."""
    listed = run("approvals", "list", "--all", *STORE, "--json", cwd=folder).stdout
    return {each["approval_id"]: each["decision"] for each in json.loads(listed)}


@pytest.fixture
def watched(folder: Path) -> Path:
    """A folder with a store in which one request waits."""
    ask(folder, "one")
    return folder


async def stopped(watch: AtTerminal) -> str:
    """What is on the screen after Ctrl-C, which ends it quietly."""
    watch.terminal.type("\x03")
    shown = await watch.rest()
    assert await watch.exit_code() == 0
    return shown


@pytest.mark.slow
class TestAtATerminal:
    @pytest.mark.parametrize("columns", WIDTHS)
    async def test_a_request_is_asked_about_and_decided(self, watched: Path, columns: int) -> None:
        """The bell rings once for it; who asks and what is shown; the keys decide it."""
        with at_terminal(
            "approvals", "watch", *STORE, "--by", "jo", cwd=watched, columns=columns
        ) as watch:
            seen = await watch.see()
            watch.terminal.type("d\n")
            seen += await watch.see()
            watch.terminal.type("not today\n")
            seen += await watch.see("shout denied")
            seen += await stopped(watch)

        assert seen.count("\a") == 1
        assert "asker" in seen
        assert "one" in seen
        assert past_the_edge(seen, columns) == []
        assert list(states(watched).values()) == ["deny"]
        shown = run("approvals", "list", "--all", *STORE, "--json", cwd=watched).stdout
        assert json.loads(shown)[0]["decided_by"] == "jo"

    async def test_new_ones_ring_and_are_asked_about_in_turn(self, watched: Path) -> None:
        """Also those that come while a question is open. Ctrl-D leaves one open and goes on."""
        with at_terminal("approvals", "watch", *STORE, cwd=watched, columns=80) as watch:
            seen = await watch.see()
            second = await asyncio.to_thread(ask, watched, "two")
            seen += await watch.see("\a")
            watch.terminal.type("\x04")
            seen += await watch.see("shout stays open")
            seen += await watch.see()
            assert "two" in seen
            watch.terminal.type("a\n")
            seen += await watch.see("shout approved")
            seen += await stopped(watch)

        assert seen.count("\a") == 2
        decided = states(watched)
        assert (decided[second], [*decided.values()].count(None)) == ("approve", 1)

    async def test_what_was_decided_elsewhere_is_withdrawn(self, watched: Path) -> None:
        """Nobody is kept at a question that needs no answer any more."""
        [name] = states(watched)
        with at_terminal("approvals", "watch", *STORE, cwd=watched, columns=80) as watch:
            await watch.see()
            await asyncio.to_thread(run, "approvals", "deny", name, *STORE, cwd=watched)
            seen = await watch.see("was decided elsewhere")
            await stopped(watch)

        assert "was decided elsewhere" in seen
        assert states(watched) == {name: "deny"}

    async def test_over_a_server(self, folder: Path) -> None:
        """The same keys, for the requests of a server; a refusal is told and nothing is lost."""
        async with serving(*MODULE, cwd=folder) as served:
            where = ("--url", served.url, "--token-file", "token")
            with at_terminal("approvals", "watch", *where, cwd=folder, columns=80) as watch:
                await watch.see("watching for requests")
                called = await asyncio.to_thread(
                    run, "tools", "call", "shout", "text=hi", *where, "--json", cwd=folder
                )
                assert called.returncode == 4, called.stderr
                seen = await watch.see()
                assert "shout wants to run" in seen
                watch.terminal.type("a\n")
                await watch.see("shout approved")
                await stopped(watch)


@pytest.mark.slow
def test_scripts_get_a_line_each(watched: Path) -> None:
    """With --json a request a line, and nothing else; SIGINT ends it without a word."""
    with subprocess.Popen(
        [*MAIN, "approvals", "watch", *STORE, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=watched,
        env=environment(PYTHONUNBUFFERED="1"),
    ) as watch:
        try:
            assert watch.stdout is not None
            first = json.loads(watch.stdout.readline())
            second = ask(watched, "two")
            assert json.loads(watch.stdout.readline())["approval_id"] == second
            watch.send_signal(signal.SIGINT)
            rest, errors = watch.communicate(timeout=PATIENCE)
        finally:
            watch.kill()

    assert (first["tool"], first["arguments"]) == ("shout", {"text": "one"})
    assert (rest, errors, watch.returncode) == ("", "", 0)


@pytest.mark.slow
@pytest.mark.parametrize("columns", WIDTHS)
async def test_the_list_of_requests_fits(watched: Path, columns: int) -> None:
    """Looks: a header, whole ids, who asked and how long ago."""
    with at_terminal("approvals", "list", *STORE, cwd=watched, columns=columns) as command:
        shown = await command.rest()
    [name] = states(watched)

    assert past_the_edge(shown, columns) == []
    assert screen_lines(shown)[0].startswith("request")
    assert name in shown
    assert " ago" in shown
    assert '{"text":"one"}' in shown
