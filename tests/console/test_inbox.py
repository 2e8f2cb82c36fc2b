"""The inbox: what a person sees before they decide, and what becomes of what they decide."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from tests.console.browser_page import PHONE, check_axe
from tests.console.crib import POLICY, TOOLS, Crib, crib_in
from tests.helpers.patience import PATIENCE
from tests.store.facts import request as filed_request
from tests.store.facts import write
from toolcrib import SqliteStore
from toolcrib.approval.caller import Caller
from toolcrib.store.store import ApprovalFiled

if TYPE_CHECKING:
    import httpx2
    from playwright.sync_api import Locator, Page, Route

    from toolcrib.client import Client

ASKING_TOOLS: Final = (
    TOOLS
    + '''

from dataclasses import dataclass

from toolcrib import ToolContext


@dataclass
class AccountChoice:
    account: Literal["savings", "current"]


@tool
async def transfer(amount: int, ctx: ToolContext) -> str:
    """Move money, after a question."""
    choice = await ctx.ask("Which account shall it be?", AccountChoice)
    return f"{amount} from {choice.account}"
'''
)

ASKING_POLICY: Final = (
    POLICY
    + """\
  - id: questions
    allow: transfer
  - id: quick
    ask: hostile_order
    deadline: 4s
  - id: two people
    ask: run_python
    approvers: 2
"""
)

CONFLICT: Final = "409 \\(Conflict\\)"
FORBIDDEN: Final = "403 \\(Forbidden\\)"


@pytest.fixture(scope="module")
def crib(tmp_path_factory: pytest.TempPathFactory, built_page: None) -> Generator[Crib]:
    """A server whose tools also ask questions, and whose policy asks for two people."""
    folder = tmp_path_factory.mktemp("inbox")
    with crib_in(folder, tools=ASKING_TOOLS, policy=ASKING_POLICY) as started:
        yield started


class Desk:
    """What bob asks for, and what becomes of it."""

    def __init__(self, crib: Crib) -> None:
        self.crib = crib
        self.bob: Client = crib.operations("bob")
        self.session_id = self.bob.create_session().session_id

    def order(self, count: int = 50, part: str = "saws", session_id: str | None = None) -> Any:
        """A call that waits."""
        arguments = {"part": part, "count": count}
        waiting = self.bob.call_tool(session_id or self.session_id, "order_parts", arguments)
        assert waiting.status == "waiting", waiting
        return waiting

    def call(self, name: str, **arguments: Any) -> Any:
        return self.bob.call_tool(self.session_id, name, arguments)

    def go_on(self, waiting: Any) -> Any:
        """Take a waiting call up again."""
        return self.bob.call_tool(self.session_id, waiting.tool, call_id=waiting.call_id)


@pytest.fixture
def desk(crib: Crib) -> Generator[Desk]:
    """A session of bob's. What is left waiting in it is denied at the end."""
    yield Desk(crib)
    carol = crib.operations("carol")
    for approval in carol.list_approvals().approvals:
        carol.decide(approval.approval_id, "deny")


def card(page: Page, approval_id: str) -> Locator:
    return page.locator(f'[data-approval="{approval_id}"]')


def button(at: Page | Locator, name: str) -> Locator:
    return at.get_by_role("button", name=re.compile(f"^{name}"))


def said(page: Page, text: str) -> Locator:
    """A message at the edge of the page; screen readers have it once more."""
    return page.get_by_text(text).first


def text_of(result: Any) -> str:
    return str(result.text)


@contextmanager
def in_background(run: Callable[[], httpx2.Response]) -> Generator[Callable[[], httpx2.Response]]:
    """A request that is answered while the test goes on; the function waits for its answer."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(run)
        yield lambda: answer.result(PATIENCE)


class TestCard:
    def test_all_that_one_needs_to_decide(self, crib: Crib, desk: Desk) -> None:
        """Intent, asker, tool with source, place and risk, arguments, rule, and when it expires."""
        waiting = desk.call("write_file", path="a.txt", content="one\ntwo")
        page = crib.page("carol", "/")

        shown = card(page, waiting.approval_id)
        expect(page).to_have_url(re.compile("/inbox"))
        expect(shown.get_by_role("heading", level=2)).to_contain_text("write_file wants to run")
        for text in ("bob", "changes something", "runs: local", "files", "policy.yaml, line"):
            expect(shown).to_contain_text(text)
        expect(shown).to_contain_text(re.compile(r"It expires in \d+ min"))
        expect(shown).to_contain_text("No earlier approval of this tool")
        expect(page).to_have_title(re.compile(r"^\(1\) Inbox"))
        check_axe(page)

    def test_the_words_of_the_model_and_what_changed(self, crib: Crib, desk: Desk) -> None:
        """A model's request has its prompt and last words, and what differs from the last call."""
        earlier = desk.order(40)
        crib.operations("carol").decide(earlier.approval_id, "approve")
        session_id = desk.bob.create_session().session_id
        desk.bob.send_prompt(session_id, "please order saws", waits=False)
        page = crib.page("ada", "/inbox")

        shown = page.get_by_role("article").filter(has_text="on behalf of bob")
        expect(shown).to_contain_text("please order saws")
        expect(shown).to_contain_text("I will order fifty saws.")
        expect(shown).to_contain_text("Last approved by carol")
        expect(shown.get_by_role("deletion")).to_have_text("40")
        expect(shown.get_by_role("insertion")).to_have_text("50")
        expect(shown.get_by_role("link", name="please order saws")).to_be_visible()


class TestDecisions:
    def test_approve(self, crib: Crib, desk: Desk) -> None:
        """It runs once it is approved; no button has the focus, and Enter alone decides nothing."""
        waiting = desk.order()
        page = crib.page("carol", "/inbox")
        shown = card(page, waiting.approval_id)
        expect(button(shown, "Approve")).to_be_visible()
        page.keyboard.press("Enter")
        assert crib.operations("carol").get_approval(waiting.approval_id).state == "pending"
        assert page.evaluate("document.activeElement.tagName") != "BUTTON"

        button(shown, "Approve").click()

        expect(said(page, "order_parts is approved. The decision is final.")).to_be_visible()
        expect(shown).to_have_count(0)
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
        assert "50 more" in text_of(desk.go_on(waiting))

    def test_edit_marks_what_does_not_fit(self, crib: Crib, desk: Desk) -> None:
        """Other arguments, in a form of the tool's schema; an invalid field is marked, and the call
        runs with what was written.
        """
        waiting = desk.order()
        page = crib.page("carol", "/inbox")
        button(card(page, waiting.approval_id), "Edit").click()
        dialog = page.get_by_role("dialog")
        count = dialog.get_by_label("count")
        count.fill("")
        expect(dialog.get_by_text("This is needed")).to_be_visible()
        approve = dialog.get_by_role("button", name="Approve with these arguments")
        expect(approve).to_be_disabled()
        check_axe(page)
        count.fill("12")
        approve.click()

        expect(said(page, "order_parts is approved.")).to_be_visible()
        assert "12 more of saws" in text_of(desk.go_on(waiting))

    def test_the_faults_of_the_server_are_at_their_fields(self, crib: Crib, desk: Desk) -> None:
        """What only the server refuses is marked too, and the edit survives it."""
        waiting = desk.order()
        page = crib.page("carol", "/inbox", allow=[CONFLICT])
        fault = {"pointer": "/count", "message": "the supplier has 20"}
        error = {"kind": "conflict", "message": "no", "facts": {"faults": [fault]}}
        page.route("**/decide", lambda route: route.fulfill(status=409, json={"error": error}))
        button(card(page, waiting.approval_id), "Edit").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("count").fill("33")
        dialog.get_by_role("button", name="Approve with these arguments").click()

        expect(dialog.get_by_text("the supplier has 20")).to_be_visible()
        expect(dialog.get_by_label("count")).to_have_value("33")

    def test_no_key_decides_the_card_behind_a_dialog(self, crib: Crib, desk: Desk) -> None:
        """A button that is disabled while its request is sent loses the focus to the page; a key
        that was meant for the form then does not approve the call as it was.
        """
        waiting = desk.order()
        page = crib.page("carol", "/inbox", allow=[CONFLICT])
        fault = {"pointer": "/count", "message": "the supplier has 20"}
        error = {"kind": "conflict", "message": "no", "facts": {"faults": [fault]}}
        page.route("**/decide", lambda route: route.fulfill(status=409, json={"error": error}))
        button(card(page, waiting.approval_id), "Edit").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("count").fill("33")
        dialog.get_by_role("button", name="Approve with these arguments").click()
        expect(dialog.get_by_text("the supplier has 20")).to_be_visible()
        assert page.evaluate("document.activeElement.tagName") == "BODY"
        page.unroute("**/decide")
        page.keyboard.press("a")
        dialog.get_by_label("count").fill("20")
        dialog.get_by_role("button", name="Approve with these arguments").click()

        expect(said(page, "order_parts is approved.")).to_be_visible()
        assert "20 more of saws" in text_of(desk.go_on(waiting))

    def test_two_requests_for_the_same_call(self, crib: Crib, desk: Desk) -> None:
        """They have one digest, and each of them is approved on its own."""
        twins = [desk.order(), desk.order()]
        page = crib.page("carol", "/inbox")
        for twin in twins:
            button(card(page, twin.approval_id), "Approve").click()
            expect(card(page, twin.approval_id)).to_have_count(0)

        assert all("50 more" in text_of(desk.go_on(twin)) for twin in twins)
        page.goto(f"/inbox?approval={twins[0].approval_id}")
        expect(page.get_by_text("carol has approved order_parts.")).to_be_visible()

    def test_a_key_decides_no_card_that_is_out_of_sight(self, crib: Crib, desk: Desk) -> None:
        """Who has scrolled away from the chosen card is brought back to it first."""
        waiting = [desk.order(count) for count in range(51, 61)]
        page = crib.page("carol", "/inbox")
        first = card(page, waiting[0].approval_id)
        expect(button(first, "Approve")).to_be_visible()
        page.keyboard.press("j")
        expect(first).to_be_focused()
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        expect(first).not_to_be_in_viewport()
        page.keyboard.press("a")
        expect(first).to_be_in_viewport()
        assert crib.operations("carol").get_approval(waiting[0].approval_id).state == "pending"
        page.keyboard.press("a")

        expect(said(page, "order_parts is approved.")).to_be_visible()

    def test_a_dialog_gives_the_focus_back(self, crib: Crib, desk: Desk) -> None:
        """To the button that opened it, or to the card whose key did."""
        waiting = desk.order()
        page = crib.page("carol", "/inbox")
        shown = card(page, waiting.approval_id)
        deny = button(shown, "Deny")
        deny.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(deny).to_be_focused()

        shown.focus()
        page.keyboard.press("e")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(shown).to_be_focused()

    def test_deny_with_a_reason(self, crib: Crib, desk: Desk) -> None:
        """The call does not run, and the reason is what the model reads."""
        waiting = desk.order()
        page = crib.page("carol", "/inbox")
        button(card(page, waiting.approval_id), "Deny").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("not on a Friday")
        dialog.get_by_role("button", name="Deny", exact=True).click()

        expect(said(page, "order_parts is denied.")).to_be_visible()
        assert "not on a Friday" in text_of(desk.go_on(waiting))

    def test_answer_in_its_place(self, crib: Crib, desk: Desk) -> None:
        """The tool does not run; its caller gets what the person wrote."""
        waiting = desk.order()
        page = crib.page("carol", "/inbox")
        button(card(page, waiting.approval_id), "Answer in its place").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Result").fill("we have enough")
        dialog.get_by_role("button", name="Answer", exact=True).click()

        expect(said(page, "has your answer and does not run")).to_be_visible()
        assert text_of(desk.go_on(waiting)) == "we have enough"

    def test_grant_and_the_next_call_runs_unasked(self, crib: Crib, desk: Desk) -> None:
        """Bounded by default, with a preview of past calls for those who may read them; a call like
        it then runs, another one is asked about. Only an admin may grant for everyone.
        """
        done = desk.call("order_parts", part="saws", count=3)
        assert done.status == "completed"
        waiting = desk.order(60)
        page = crib.page("carol", "/inbox")
        button(card(page, waiting.approval_id), "Grant").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Calls of this session")).to_be_checked()
        expect(dialog.get_by_label("Calls of everyone")).to_have_count(0)
        expect(dialog.get_by_label("Until when")).to_have_value("86400")
        dialog.get_by_label("Pattern of count").select_option("max")
        dialog.get_by_label("Value of the pattern of count").fill("70")
        expect(dialog.get_by_text("no past calls that you may read")).to_be_visible()
        check_axe(page)
        admins = crib.page("ada", "/inbox")
        button(card(admins, waiting.approval_id), "Grant").click()
        theirs = admins.get_by_role("dialog")
        expect(theirs.get_by_label("Calls of everyone")).to_be_visible()
        expect(
            theirs.get_by_text(re.compile(r"It would have covered \d+ of the last"))
        ).to_be_visible()
        dialog.get_by_role("button", name="Approve and grant").click()
        expect(said(page, "calls like it are from now on")).to_be_visible()

        desk.go_on(waiting)
        like_it = desk.call("order_parts", part="saws", count=65)
        larger = desk.call("order_parts", part="saws", count=71)
        assert (like_it.status, larger.status) == ("completed", "waiting")
        [grant] = [each for each in crib.operations("ada").list_grants().grants if each.is_live]
        assert (grant.scope, grant.arguments["/count"]) == ("session", {"max": 70})
        crib.operations("ada").revoke_grant(grant.grant_id)

    def test_several_at_once(self, crib: Crib, desk: Desk) -> None:
        """Each selected request is decided on its own, and what became of each is told: one that
        somebody else decided meanwhile is not an approval.
        """
        waiting = [desk.order(count) for count in (51, 52, 53)]
        page = crib.page("carol", "/inbox", allow=[CONFLICT])
        for each in waiting:
            card(page, each.approval_id).get_by_role("checkbox").check()
        button(page, "Approve selected").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_text("not sent yet")).to_have_count(3)
        crib.operations("ada").decide(waiting[1].approval_id, "deny")
        dialog.get_by_role("button", name="Approve 3").click()

        expect(dialog.get_by_text("order_parts is approved.")).to_have_count(2)
        expect(dialog.get_by_text("ada was faster and has denied")).to_have_count(1)
        dialog.get_by_role("button", name="Done").click()
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()

    def test_who_cancels_several_in_the_middle_decides_no_more(
        self, crib: Crib, desk: Desk
    ) -> None:
        """What was sent is decided, and the rest goes on waiting."""
        waiting = [desk.order(count) for count in (51, 52, 53)]
        page = crib.page("carol", "/inbox")
        sent: list[Route] = []
        page.route("**/decide", lambda route: sent.append(route))
        for each in waiting:
            card(page, each.approval_id).get_by_role("checkbox").check()
        button(page, "Approve selected").click()
        dialog = page.get_by_role("dialog")
        with page.expect_request("**/decide"):
            dialog.get_by_role("button", name="Approve 3").click()
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        sent[0].continue_()

        expect(page.get_by_text("2 calls wait for a decision")).to_be_visible()
        assert len(sent) == 1

    def test_by_keyboard_alone(self, crib: Crib, desk: Desk) -> None:
        """J and K choose, X selects, D denies, A approves, ? explains; nobody needs a mouse."""
        first, second = desk.order(51), desk.order(52)
        page = crib.page("carol", "/inbox")
        for each in (first, second):
            expect(button(card(page, each.approval_id), "Approve")).to_be_visible()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("Enter alone decides nothing")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("j")
        expect(card(page, first.approval_id)).to_be_focused()
        page.keyboard.press("j")
        expect(card(page, second.approval_id)).to_be_focused()
        page.keyboard.press("x")
        expect(card(page, second.approval_id).get_by_role("checkbox")).to_be_checked()
        page.keyboard.press("x")
        page.keyboard.press("d")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.type("no, by keyboard")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(card(page, second.approval_id)).to_have_count(0)
        page.keyboard.press("j")
        expect(card(page, first.approval_id)).to_be_focused()
        page.keyboard.press("a")
        expect(card(page, first.approval_id)).to_have_count(0)

        carol = crib.operations("carol")
        assert carol.get_approval(first.approval_id).decision == "approve"
        assert "no, by keyboard" in text_of(desk.go_on(second))


class TestConflicts:
    def test_of_two_who_race_one_wins_and_the_other_is_told(self, crib: Crib, desk: Desk) -> None:
        """The second one's decision does not count, they are told who was faster, and what they
        typed is still there.
        """
        waiting = desk.order()
        carol = crib.page("carol", "/inbox", allow=[CONFLICT])
        ada = crib.page("ada", "/inbox")
        button(card(carol, waiting.approval_id), "Deny").click()
        dialog = carol.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("a long reason")
        button(card(ada, waiting.approval_id), "Approve").click()
        expect(said(ada, "order_parts is approved.")).to_be_visible()

        dialog.get_by_role("button", name="Deny", exact=True).click()

        expect(dialog.get_by_role("alert")).to_contain_text("ada was faster and has approved")
        expect(dialog.get_by_label("Reason")).to_have_value("a long reason")
        assert crib.operations("ada").get_approval(waiting.approval_id).decided_by == "ada"

    def test_a_card_that_somebody_else_decides_leaves_with_a_word(
        self, crib: Crib, desk: Desk
    ) -> None:
        """Who looks at a card is told what became of it, and the next key is for no other card."""
        first, second = desk.order(51), desk.order(52)
        page = crib.page("carol", "/inbox")
        expect(button(card(page, first.approval_id), "Approve")).to_be_visible()
        page.keyboard.press("j")
        expect(card(page, first.approval_id)).to_be_focused()
        crib.operations("ada").decide(first.approval_id, "deny")

        expect(said(page, "ada was faster and has denied order_parts")).to_be_visible()
        expect(card(page, first.approval_id)).to_have_count(0)
        page.keyboard.press("a")
        expect(page.locator("article[aria-current=true]")).to_have_count(0)
        assert crib.operations("carol").get_approval(second.approval_id).state == "pending"

    def test_two_people_have_to_approve(self, crib: Crib, desk: Desk) -> None:
        """The first approval counts and is shown; the same person cannot give the second."""
        waiting = desk.call("run_python", code="print(1)")
        page = crib.page("carol", "/inbox")
        shown = card(page, waiting.approval_id)
        expect(shown).to_contain_text("Needs 2 approvers")
        expect(button(shown, "Grant")).to_have_count(0)
        button(shown, "Approve").click()
        expect(page.get_by_text("Somebody else has to approve it too").first).to_be_visible()
        expect(shown).to_contain_text("Approved by carol")
        expect(button(shown, "Approve")).to_have_count(0)

        other = crib.page("ada", "/inbox")
        button(card(other, waiting.approval_id), "Approve").click()

        expect(shown).to_have_count(0)
        assert "It ran" in text_of(desk.go_on(waiting))

    def test_a_lost_answer_is_sent_again_and_counts_once(self, crib: Crib, desk: Desk) -> None:
        """Nobody knows whether it arrived: the same decision, with the same key, is safe."""
        waiting = desk.order()
        page = crib.page("carol", "/inbox", allow=["ERR_FAILED", "Failed to fetch"])
        keys: list[str] = []

        def lose(route: Any) -> None:
            keys.append(route.request.headers["idempotency-key"])
            if len(keys) == 1:
                # The server decides; its answer does not come.
                route.fetch()
                route.abort()
            else:
                route.continue_()

        page.route("**/decide", lose)
        button(card(page, waiting.approval_id), "Deny").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("no")
        dialog.get_by_role("button", name="Deny", exact=True).click()
        expect(dialog.get_by_role("alert")).to_contain_text("it counts once")
        dialog.get_by_role("button", name="Deny", exact=True).click()

        expect(said(page, "order_parts is denied.")).to_be_visible()
        assert len(set(keys)) == 1

    def test_it_expires_under_an_open_card(self, crib: Crib, desk: Desk) -> None:
        """A request that nobody decided in time closes while somebody writes: they are told, the
        decision does not count, and what they typed is still there. Its text obeys nobody.
        """
        text = "<img src=x onerror=alert(1)> \u202egnp.exe"
        waiting = desk.call("hostile_order", text=text)
        page = crib.page("carol", "/inbox", allow=[CONFLICT])
        shown = card(page, waiting.approval_id)
        expect(shown.locator("[data-untrusted]").first).to_be_visible()
        button(shown, "Deny").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("too late")
        expect(said(page, "has expired")).to_be_visible(timeout=15_000)

        dialog.get_by_role("button", name="Deny", exact=True).click()

        expect(dialog.get_by_role("alert")).to_contain_text("has expired")
        expect(dialog.get_by_label("Reason")).to_have_value("too late")
        assert crib.operations("carol").get_approval(waiting.approval_id).decision == "expire"


class TestQuestions:
    def test_a_question_is_answered_in_a_form(self, crib: Crib, desk: Desk) -> None:
        """A running call asks; its caller answers in a form of the question's schema."""
        page = crib.page("bob", "/inbox")
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
        path = f"/v1/sessions/{desk.session_id}/tools/transfer/call"
        with in_background(
            lambda: crib.request("bob", "POST", path, {"arguments": {"amount": 5}})
        ) as answer:
            shown = page.get_by_role("article", name="transfer asks")
            expect(shown).to_contain_text("Which account shall it be?")
            expect(page).to_have_title(re.compile(r"^\(1\)"))
            shown.get_by_label("account").select_option(label="savings")
            shown.get_by_role("button", name="Answer", exact=True).click()
            expect(shown).to_have_count(0)
        assert answer().json()["text"] == "5 from savings"


class TestRoles:
    def test_who_may_not_decide_sees_no_button(self, crib: Crib, desk: Desk) -> None:
        """A caller and an auditor see the request and no way to decide it; the server refuses them
        too.
        """
        waiting = desk.order()
        for person in ("bob", "dora"):
            page = crib.page(person, "/inbox")
            shown = card(page, waiting.approval_id)
            expect(shown).to_contain_text("changes something")
            expect(shown.get_by_role("group", name=re.compile("Decide about"))).to_have_count(0)
            path = f"/v1/approvals/{waiting.approval_id}/decide"
            refused = crib.request(person, "POST", path, {"decision": "approve"})
            assert refused.status_code == 403

    def test_nobody_sees_what_is_not_theirs(self, crib: Crib, desk: Desk) -> None:
        """A caller's inbox has no request of somebody else, on the page and behind it."""
        ada = crib.operations("ada")
        session_id = ada.create_session().session_id
        hers = ada.call_tool(session_id, "order_parts", {"part": "nuts", "count": 44})
        page = crib.page("bob", "/inbox")
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
        for path in ("", "/context"):
            url = f"/v1/approvals/{hers.approval_id}{path}"
            assert crib.request("bob", "GET", url).status_code == 404
        assert crib.request("bob", "GET", "/v1/approvals/events").json()["waiting"] == 0


class TestLive:
    def test_what_comes_is_shown_and_told_on_request(self, crib: Crib, desk: Desk) -> None:
        """A new request appears by itself. The browser is asked for notifications by a click only,
        and then tells of a request while nobody looks at the page.
        """
        page = crib.page("carol", "/inbox")
        page.evaluate(
            """() => {
              window.notices = []; window.asked = 0;
              class Notice { constructor(title) { window.notices.push(title); } close() {} }
              Notice.permission = "default";
              Notice.requestPermission = async () => {
                window.asked += 1; Notice.permission = "granted"; return "granted"; };
              window.Notification = Notice;
              document.hasFocus = () => false;
            }"""
        )
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
        assert page.evaluate("window.asked") == 0
        page.get_by_role("button", name="Notify me").click()
        expect(page.get_by_role("button", name="Notifications are on")).to_be_visible()
        waiting = desk.order()

        expect(card(page, waiting.approval_id)).to_be_visible()
        page.wait_for_function("window.notices.length > 0")
        assert page.evaluate("[window.asked, window.notices]") == [1, ["1 new request"]]

    def test_filters_are_in_the_address(self, crib: Crib, desk: Desk) -> None:
        """A link to the inbox of one tool shows that tool alone."""
        order, file = desk.order(), desk.call("write_file", path="a", content="b")
        page = crib.page("carol", "/inbox")
        page.get_by_label("Tool", exact=True).select_option("write_file")

        expect(page).to_have_url(re.compile("tool=write_file"))
        expect(card(page, order.approval_id)).to_have_count(0)
        expect(card(page, file.approval_id)).to_be_visible()

    def test_what_no_page_reads_is_no_filter(self, crib: Crib, desk: Desk) -> None:
        """A word in the address that nobody knows hides nothing, and the server is not asked."""
        page = crib.page("ada", "/inbox?from=mail")
        expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
        expect(page).to_have_url(f"{crib.url}/inbox")

        page.goto("/sessions?search=saws")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
        expect(page.get_by_role("link", name="Nothing happened yet").first).to_be_visible()

    def test_both_themes_and_a_phone(self, crib: Crib, desk: Desk) -> None:
        """Axe finds nothing in the dark theme on a phone, and nothing is wider than the screen."""
        desk.order()
        page = crib.page("carol", "/inbox", size=PHONE, theme="dark")
        expect(button(page.get_by_role("article").first, "Approve")).to_be_visible()

        check_axe(page)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


SCROLL: Final = """async () => {
  const tasks = [];
  const observer = new PerformanceObserver((list) =>
    list.getEntries().forEach((entry) => tasks.push(Math.round(entry.duration))));
  observer.observe({type: "longtask"});
  const frame = () => new Promise(requestAnimationFrame);
  for (let step = 0; step < 200; step++) { window.scrollBy(0, 700); await frame(); }
  for (let step = 0; step < 60; step++) { window.scrollBy(0, -700); await frame(); }
  await frame();
  tasks.push(...observer.takeRecords().map((entry) => Math.round(entry.duration)));
  observer.disconnect();
  return {tasks, mounted: document.querySelectorAll("[data-approval]").length,
          at: Math.round(window.scrollY)};
}"""


def test_a_thousand_requests_scroll_smoothly(
    crib: Crib, record_property: Callable[[str, object], None]
) -> None:
    """No task of the page takes 100 ms while somebody scrolls through a thousand cards, and only
    the cards in sight are in the page. The first page is there at once.
    """
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    with SqliteStore(crib.folder / "crib.sqlite3") as store:
        lease = store.acquire("bulk", owner="bob")
        requests = [
            replace(
                filed_request(f"apr_{number}", "bulk", f"d{number}"),
                call_id=f"c{number}",
                arguments={"path": f"notes/{number}.txt", "lines": [{"a": number, "b": "x"}] * 3},
                parameters=parameters,
                caller=Caller("bob", "http", is_model=True),
            )
            for number in range(1_000)
        ]
        write(store, lease, 1, [ApprovalFiled(each) for each in requests])
        store.release(lease)
    try:
        page = crib.page("carol", "/inbox")
        expect(card(page, "apr_0")).to_be_visible()
        expect(page).to_have_title(re.compile(r"^\(1000\)"))
        expect(page.get_by_text("1,000 calls wait")).to_be_visible()
        longest: list[int] = []
        # Other programs of a busy machine count into a task: the best of three is the page's own.
        while len(longest) < 3 and min(longest, default=100) >= 100:
            page.evaluate("window.scrollTo(0, 0)")
            scrolled = page.evaluate(SCROLL)
            assert scrolled["at"] > 20_000
            assert scrolled["mounted"] < 20
            longest.append(max(scrolled["tasks"], default=0))
        record_property("longest_task_ms", min(longest))
        print(f"longest task while scrolling 1,000 cards, in ms: {longest}")
        assert min(longest) < 100
    finally:
        with SqliteStore(crib.folder / "crib.sqlite3") as store:
            store.delete_session("bulk")


def test_the_tool_changes_and_the_server_restarts_under_an_open_card(crib: Crib) -> None:
    """The page says that the server is away and comes back by itself. A request of the tool as it
    was is closed; the new one says what changed, and what was typed is still there.
    """
    desk = Desk(crib)
    waiting = desk.order()
    page = crib.page("carol", "/inbox", allow=[CONFLICT, "ERR_CONNECTION_REFUSED", "ERR_INCOM"])
    button(card(page, waiting.approval_id), "Deny").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("I was writing this")
    crib.kill()
    expect(page.get_by_text("No connection to the server")).to_be_visible()
    tools = crib.folder / "crib_tools.py"
    tools.write_text(tools.read_text("utf-8").replace("How many.", "How many, in dozens."), "utf-8")
    crib.start()
    desk.bob.resume_session(desk.session_id)
    again = desk.go_on(waiting)
    assert again.approval_id != waiting.approval_id

    dialog.get_by_role("button", name="Deny", exact=True).click()

    expect(dialog.get_by_role("alert")).to_contain_text("the tool changed")
    expect(dialog.get_by_label("Reason")).to_have_value("I was writing this")
    page.keyboard.press("Escape")
    expect(card(page, again.approval_id)).to_contain_text("The tool changed")
    expect(card(page, waiting.approval_id)).to_have_count(0)
