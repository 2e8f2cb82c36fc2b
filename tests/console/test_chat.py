"""Chat: a person talks to the agent, decides, answers, stops, leaves, and comes back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import pytest
from playwright.sync_api import expect

from tests.console.browser_page import check_axe
from tests.console.crib import PROJECT, SCENARIO, TOOLS, Crib, crib_in
from tests.helpers.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

MODEL = '''
"""The clerk of the scenario, who tells stories too: it stops in the middle of one."""

import asyncio
from pathlib import Path

from toolcrib.embedded import BackendFailed, BackendMessage, BackendText, EmbeddedProvider
from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend
from toolcrib.embedded.backends.scenarios.scenario import load_scenario

HERE = Path(__file__).parent


class Clerk:
    name = "clerk"
    is_scripted = False

    def __init__(self):
        self._scripted = ScriptedBackend(load_scenario(HERE / "scenario.yaml"))

    async def propose(self, request):
        prompt = [turn.text for turn in request.history if isinstance(turn, BackendMessage)][-1]
        if "break" in prompt:
            if not (HERE / "repaired").exists():
                raise BackendFailed("the model is out of order")
            yield BackendText("It works again.")
            return
        if "story" not in prompt:
            async for part in self._scripted.propose(request):
                yield part
            return
        yield BackendText("Once upon a time ")
        yield BackendText("there was **a saw**. ")
        while not (HERE / "go_on").exists():
            await asyncio.sleep(0.02)
        yield BackendText("It cut happily ever after.")

    async def aclose(self):
        pass


adapter = EmbeddedProvider(Clerk()).adapter()
'''

MORE_TOOLS = '''
from dataclasses import dataclass

from toolcrib import ToolContext


@dataclass
class Box:
    size: Literal["small", "large"]
    count: int


@tool(is_read_only=True)
async def pack(ctx: ToolContext) -> str:
    """Pack an order."""
    box = await ctx.ask("Which box, and how many?", Box)
    return f"{box.count} boxes, {box.size}."
'''

MORE_TURNS = """\
  - when: pack
    steps:
      - calls: [{tool: pack, arguments: {}, as: packed}]
      - say: "Packed: {{ packed.text }}"
  - when: wait
    steps:
      - calls: [{tool: slow, arguments: {}, as: slept}]
      - say: Rested.
"""


@pytest.fixture(scope="module")
def crib(tmp_path_factory: pytest.TempPathFactory, built_page: None) -> Generator[Crib]:
    """A server whose model can stop in the middle of an answer, and a tool that asks."""
    folder = tmp_path_factory.mktemp("chat")
    (folder / "chat_model.py").write_text(MODEL, "utf-8")
    first, rest = SCENARIO.split("turns:\n", 1)
    with crib_in(
        folder,
        tools=TOOLS + MORE_TOOLS,
        scenario=f"{first}turns:\n{MORE_TURNS}{rest}",
        project=PROJECT.replace("crib_model", "chat_model"),
    ) as started:
        yield started


@pytest.fixture
def go_on(crib: Crib) -> Generator[None]:
    """The story stops in the middle, in each test anew."""
    (crib.folder / "go_on").unlink(missing_ok=True)
    yield
    (crib.folder / "go_on").touch()


def send(page: Page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    # While an answer is on its way there is no button to send, and Enter sends nothing.
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.get_by_label("Your message").press("Enter")


def deny(page: Page, reason: str) -> None:
    """In the dialog of the inbox, which opens here."""
    log(page).get_by_role("button", name="Deny").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill(reason)
    dialog.get_by_role("button", name="Deny").click()


def log(page: Page) -> Locator:
    return page.get_by_role("log")


def session_of(page: Page) -> str:
    expect(page).to_have_url(re.compile(r"/chat/ses_\w+"))
    return page.url.rpartition("/")[2]


def command(crib: Crib, *words: str) -> str:
    """What a command prints that bob types."""
    done = subprocess.run(
        [sys.executable, "-m", "toolcrib", *words],
        cwd=crib.folder,
        env={**os.environ, "TOOLCRIB_TOKEN": crib.token("bob"), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def say_in_editor(crib: Crib, session_id: str, text: str) -> str:
    """What an editor shows that loads a session and sends a prompt, over its agent's pipes."""
    requests: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
        ("session/load", {"sessionId": session_id, "cwd": str(crib.folder), "mcpServers": []}),
        (
            "session/prompt",
            {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]},
        ),
    ]
    updates: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "toolcrib", "acp"],
        cwd=crib.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        for number, (method, params) in enumerate(requests):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            agent.stdin.write(json.dumps(request) + "\n")
            agent.stdin.flush()
            for line in agent.stdout:
                message = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    assert "error" not in message, message
                    break
                content = message.get("params", {}).get("update", {}).get("content")
                # The content of a tool call is a list.
                if isinstance(content, dict):
                    updates.append(str(cast("dict[str, object]", content).get("text")))
        agent.stdin.close()
    return "".join(updates)


def test_a_new_conversation_says_who_answers_and_with_what(crib: Crib) -> None:
    """The agent, its tools, and examples made of them, which fill the composer and send nothing."""
    page = crib.page("bob", "/chat")

    expect(page.get_by_text("clerk (EmbeddedAdapter)")).to_be_visible()
    expect(page.get_by_role("link", name="stock_level")).to_be_visible()
    page.get_by_role("button", name="Write: Pack an order.").click()
    composer = page.get_by_label("Your message")
    expect(composer).to_have_value("Pack an order.")
    expect(composer).to_be_focused()
    check_axe(page)

    # A draft outlives a reload; Shift+Enter begins a line.
    composer.press("End")
    composer.press("Shift+Enter")
    composer.press_sequentially("Of saws.")
    page.reload()
    expect(page.get_by_label("Your message")).to_have_value("Pack an order.\nOf saws.")
    assert crib.operations("bob").list_sessions().sessions == []


def test_a_prompt_is_answered_with_tools(crib: Crib) -> None:
    """The calls are in line with the text, and the conversation is in the list."""
    page = crib.page("bob", "/chat")
    send(page, "how many are there?")

    expect(log(page)).to_contain_text("There are 2 saws and 120 bolts.")
    session_id = session_of(page)
    assert crib.operations("bob").get_session(session_id).owner == "bob"
    calls = log(page).get_by_role("article", name=re.compile("^stock_level"))
    expect(calls).to_have_count(2)
    expect(calls.first).to_contain_text("saws")
    expect(page.get_by_role("link", name=re.compile("how many are there"))).to_be_visible()
    check_axe(page)


@pytest.mark.usefixtures("go_on")
def test_an_answer_grows_and_a_reload_loses_nothing_of_it(crib: Crib) -> None:
    """In the middle of an answer the page is loaded again: what was written is there at once, and
    the rest follows, once.
    """
    page = crib.page("bob", "/chat")
    send(page, "Tell me a story.")
    expect(log(page)).to_contain_text("Once upon a time there was a saw.")
    expect(log(page)).not_to_contain_text("ever after")
    expect(log(page).get_by_role("strong").or_(log(page).locator("strong"))).to_have_text("a saw")

    page.reload()
    expect(log(page)).to_contain_text("Once upon a time there was a saw.")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    (crib.folder / "go_on").touch()
    expect(log(page)).to_contain_text(
        "Once upon a time there was a saw. It cut happily ever after."
    )
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert log(page).inner_text().count("Once upon a time") == 1


@pytest.mark.usefixtures("go_on")
def test_stop_ends_the_answer_and_the_call_that_runs(crib: Crib) -> None:
    """Also a call that is running for it; the conversation goes on afterwards."""
    page = crib.page("bob", "/chat")
    send(page, "Please wait.")
    expect(log(page).get_by_text("running")).to_be_visible()
    page.get_by_role("button", name="Stop").click()

    expect(
        page.get_by_text("Calls that were running for it were cancelled too.").first
    ).to_be_visible()
    expect(log(page).get_by_text("Stopped by bob.")).to_be_visible()
    events = crib.operations("bob").list_events(session_of(page)).events
    (ended,) = [event["data"] for event in events if event["kind"] == "tool.invoked"]
    assert ended["failure"]["kind"] == "cancelled"

    send(page, "how many are there?")
    expect(log(page)).to_contain_text("There are")


def test_a_call_is_approved_and_another_denied_in_line(crib: Crib) -> None:
    """Approve runs it, deny tells the model why; neither has the focus by itself."""
    page = crib.page("owner", "/chat")
    send(page, "order some")
    approve = log(page).get_by_role("button", name="Approve")
    expect(approve).to_be_visible()
    expect(approve).not_to_be_focused()
    approve.click()
    expect(log(page)).to_contain_text("50 more of saws are ordered")

    send(page, "order again")
    deny(page, "We have enough.")
    expect(log(page).get_by_text("denied", exact=True)).to_be_visible()
    expect(log(page)).to_contain_text("We have enough.")


def test_a_caller_waits_for_an_approver(crib: Crib) -> None:
    """Who may not decide sees no buttons, and the answer comes when somebody else has decided."""
    page = crib.page("bob", "/chat")
    send(page, "order some")
    expect(log(page).get_by_text("waits for a decision")).to_be_visible()
    expect(log(page).get_by_role("button", name="Approve")).to_have_count(0)

    carol = crib.operations("carol")
    (approval,) = carol.list_approvals(session_id=session_of(page)).approvals
    refused = crib.request(
        "bob", "POST", f"/v1/approvals/{approval.approval_id}/decide", {"decision": "approve"}
    )
    assert refused.status_code == 403
    carol.decide(approval.approval_id, "approve", digest=approval.digest)
    expect(log(page)).to_contain_text("50 more of saws are ordered")


def test_a_question_of_a_call_is_answered_in_line(crib: Crib) -> None:
    """With a form made of its schema; the call goes on with the answer."""
    page = crib.page("bob", "/chat")
    send(page, "pack it")
    expect(log(page)).to_contain_text("Which box, and how many?")
    log(page).get_by_label(re.compile("^size")).select_option("large")
    log(page).get_by_label(re.compile("^count")).fill("3")
    log(page).get_by_role("button", name="Answer", exact=True).click()

    expect(log(page)).to_contain_text("Packed: 3 boxes, large.")


def test_a_restart_of_the_server_loses_no_prompt_that_waits(crib: Crib) -> None:
    """The server is killed while an approval waits, under an open page. After the restart the page
    is back by itself, and the approval brings the answer.
    """
    page = crib.page("owner", "/chat", allow=["Failed to load resource", "ERR_", "404"])
    send(page, "order some")
    expect(log(page).get_by_role("button", name="Approve")).to_be_visible()

    crib.restart()
    approve = log(page).get_by_role("button", name="Approve")
    expect(approve).to_be_visible()
    approve.click()
    expect(log(page)).to_contain_text("50 more of saws are ordered", timeout=20_000)


def test_the_same_session_goes_on_in_a_terminal(crib: Crib) -> None:
    """The command that the page shows continues the session at the server, and the page shows
    what was said there.
    """
    page = crib.page("bob", "/chat")
    send(page, "how many are there?")
    expect(log(page)).to_contain_text("There are")
    session_id = session_of(page)
    page.get_by_role("button", name="Continue elsewhere").click()
    line = f"toolcrib run --session {session_id} --url {crib.url}"
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(line)).to_be_visible()
    check_axe(page)
    page.keyboard.press("Escape")

    output = command(crib, *line.split()[1:], "Please fail now.")
    assert "It did not work." in output
    expect(log(page)).to_contain_text("Please fail now.")
    expect(log(page)).to_contain_text("It did not work.")


def test_a_session_is_handed_over_to_another_process(crib: Crib) -> None:
    """While the server has a session open no other process writes it. Let go, it continues on the
    store, at a terminal and in an editor; the page does not take it back by itself, and shows what
    was said there.
    """
    page = crib.page("bob", "/chat")
    send(page, "how many are there?")
    expect(log(page)).to_contain_text("There are")
    session_id = session_of(page)
    words = ("run", "--session", session_id, "Hello?")
    with pytest.raises(AssertionError, match="another process"):
        command(crib, *words)

    page.get_by_role("button", name="Continue elsewhere").click()
    page.get_by_role("button", name="Let go of it here").click()
    page.keyboard.press("Escape")
    expect(log(page).get_by_text("not open at this server")).to_be_visible()
    assert "I can count" in command(crib, *words)
    expect(log(page)).to_contain_text("Hello?", timeout=20_000)
    shown = say_in_editor(crib, session_id, "Please fail now.")
    assert "I can count" in shown
    assert "It did not work." in shown
    expect(log(page)).to_contain_text("It did not work.", timeout=20_000)

    send(page, "how many are there?")
    expect(log(page).get_by_text("There are")).to_have_count(2)


def test_an_auditor_reads_and_does_not_talk(crib: Crib) -> None:
    """There is no composer and nothing to decide, and the server refuses what the page hides."""
    owner = crib.page("bob", "/chat")
    send(owner, "how many are there?")
    expect(log(owner)).to_contain_text("There are")
    session_id = session_of(owner)

    page = crib.page("dora", f"/chat/{session_id}")
    expect(log(page)).to_contain_text("There are")
    expect(page.get_by_text("its owner talks to the agent")).to_be_visible()
    expect(page.get_by_label("Your message")).to_have_count(0)
    expect(page.get_by_role("link", name="New conversation")).to_have_count(0)
    check_axe(page)
    for path, body in (
        ("prompt", {"text": "hi"}),
        ("prompt/resume", {}),
        ("prompt/cancel", {}),
    ):
        refused = crib.request("dora", "POST", f"/v1/sessions/{session_id}/{path}", body)
        assert refused.status_code == 403


def test_a_failed_answer_says_why_and_goes_on(crib: Crib) -> None:
    """After a reload too: the failure is in the ledger. Going on repeats no call that has ended."""
    page = crib.page("bob", "/chat")
    send(page, "Please break.")
    alert = log(page).get_by_role("alert")
    expect(alert).to_contain_text("The answer failed")
    expect(alert).to_contain_text("the model is out of order")
    page.reload()
    expect(alert).to_contain_text("the model is out of order")

    (crib.folder / "repaired").touch()
    alert.get_by_role("button", name="Go on").click()
    expect(log(page)).to_contain_text("It works again.")
    expect(alert).to_have_count(0)


@pytest.mark.parametrize(("size", "theme"), [((390, 844), "dark"), ((1440, 900), "dark")])
def test_the_page_fits_a_phone_and_the_dark(crib: Crib, size: tuple[int, int], theme: str) -> None:
    """Axe finds nothing, and nothing is wider than the screen."""
    page = crib.page("owner", "/chat", size=size, theme="dark")
    send(page, "order some")
    expect(log(page).get_by_role("button", name="Approve")).to_be_visible()
    check_axe(page)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= size[0]
    deny(page, "It was a try.")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
