"""The policy page: the file with its faults, drafts of it, and what they would have changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.browser_page import PHONE, check_axe
from tests.console.crib import POLICY, TOOLS, crib_in

if TYPE_CHECKING:
    from tests.console.crib import Crib

SECRET_TOOL = '''

from typing import Annotated
from pydantic import Field


@tool
def unlock(door: str, pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})]) -> str:
    """Unlock a door."""
    return "open"
'''


@pytest.fixture(scope="module")
def crib(tmp_path_factory: pytest.TempPathFactory, built_page: None) -> Any:
    """The workshop with a tool that takes a secret, and calls of the past."""
    policy = POLICY + "  - {id: doors, allow: unlock}\n"
    folder = tmp_path_factory.mktemp("crib")
    with crib_in(folder, tools=TOOLS + SECRET_TOOL, policy=policy) as started:
        bob = started.operations("bob")
        session = bob.create_session().session_id
        for count in (3, 4, 9):
            bob.call_tool(session, "order_parts", {"part": "saws", "count": count})
        bob.call_tool(session, "order_parts", {"part": "saws", "count": 5_000})
        bob.call_tool(session, "unlock", {"door": "front", "pin": "9876"})
        yield started


def editor(page: Page) -> Locator:
    return page.locator(".cm-content")


def write_draft(page: Page, text: str) -> None:
    """Type over the draft, paste a text in its place, and type a comment behind it."""
    editor(page).click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("over")
    expect(editor(page)).to_have_text("over")
    page.keyboard.press("ControlOrMeta+a")
    editor(page).evaluate(
        """(element, text) => {
        const clipboardData = new DataTransfer();
        clipboardData.setData("text/plain", text);
        element.dispatchEvent(
            new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )
    page.keyboard.type("# typed")


def test_the_file_in_force_is_shown_and_an_address_points_at_a_line(crib: Crib) -> None:
    """Issue 15: the file with line numbers; the inbox links to the line of the rule that asked."""
    page = crib.page("carol", "/policy#L6")

    expect(page.get_by_text("policy.yaml is in force")).to_be_visible()
    expect(page.locator(".cm-marked-line")).to_contain_text("small orders")
    expect(page.get_by_role("textbox", name="The policy in force")).to_have_attribute(
        "aria-readonly", "true"
    )
    page.get_by_role("table", name="Rules").get_by_role("link", name="line 10").click()
    expect(page).to_have_url(re.compile("#L10$"))
    expect(page.locator(".cm-marked-line")).to_contain_text("absurd orders")
    check_axe(page)


def test_a_fault_of_a_draft_is_marked_on_its_line(crib: Crib) -> None:
    """Every fault is underlined where it is, and in a list that leads there."""
    page = crib.page("dora", "/policy", theme="dark")
    page.get_by_role("button", name="Edit a draft").click()
    expect(page.get_by_text("This page never writes the file")).to_be_visible()
    write_draft(page, "version: 1\nrules:\n  - forbid: pay\n  - deny: order_prts\n")

    expect(page.get_by_text("1 fault", exact=True)).to_be_visible()
    expect(
        page.locator(".cm-line", has_text="forbid").locator(".cm-lintRange-error")
    ).to_be_visible()
    expect(page.get_by_role("link", name="line 3")).to_be_visible()
    expect(page.get_by_role("button", name="Try it on past calls")).to_be_disabled()
    check_axe(page)

    write_draft(page, "version: 1\nrules:\n  - deny: order_prts\n")
    expect(page.get_by_text("did you mean 'order_parts'")).to_be_visible()

    page.reload()
    expect(editor(page)).to_contain_text("order_prts")
    page.get_by_role("button", name="Discard the draft").click()
    expect(page.get_by_role("textbox", name="The policy in force")).to_be_visible()


def test_a_dry_run_finds_exactly_the_calls_that_would_change(crib: Crib) -> None:
    """Issue 15: what would this rule have changed last week, with unknown calls counted as such."""
    page = crib.page("dora", "/policy")
    page.get_by_role("button", name="Edit a draft").click()
    draft = POLICY.replace("{max: 10}", "{max: 3}") + (
        "  - {id: doors, allow: unlock}\n"
        "  - {id: old pin, deny: unlock, arguments: {/pin: '1234'}}\n"
    )
    write_draft(page, draft)
    expect(page.get_by_text("No faults")).to_be_visible()
    page.get_by_role("button", name="Try it on past calls").click()

    counts = page.get_by_role("status").filter(has_text="looked at")
    expect(counts).to_contain_text("5 past calls looked at")
    expect(counts).to_contain_text("2 would have changed")
    expect(counts).to_contain_text("2 would not")
    expect(counts).to_contain_text("1 cannot be told")
    expect(page.get_by_text("a rule asks about a value that the record hides")).to_be_visible()
    calls = page.get_by_role("table", name="Calls that would have changed").get_by_role("row")
    expect(calls).to_have_count(3)
    expect(calls.nth(1)).to_contain_text('"count":9')
    expect(calls.nth(2)).to_contain_text('"count":4')
    check_axe(page)
    page.get_by_role("link", name="Open").first.click()
    expect(page).to_have_url(re.compile(r"/sessions/.*event=\d+"))


def test_a_newer_file_with_faults_is_told(crib: Crib) -> None:
    """What the server did not take is shown with its faults; what is in force stays."""
    file = crib.folder / "policy.yaml"
    before = file.read_text()
    try:
        file.write_text("version: 1\nrules:\n  - forbid: pay\n")
        page = crib.page("dora", "/policy", size=PHONE)
        banner = page.get_by_role("alert")
        expect(banner).to_contain_text("that is not in force")
        expect(banner).to_contain_text("line 3")
        expect(editor(page)).to_contain_text("small orders")
        check_axe(page)
    finally:
        file.write_text(before)


def test_a_caller_has_no_policy_page_and_is_refused(crib: Crib) -> None:
    """The policy may name people: it is for approvers, auditors and admins."""
    page = crib.page("bob", "/policy", allow=["403"])

    expect(page.get_by_text("Your roles do not allow this")).to_be_visible()
    expect(page.get_by_role("link", name="Policy")).to_have_count(0)
    assert crib.request("bob", "GET", "/v1/policy").status_code == 403
    body = {"draft": "version: 1"}
    assert crib.request("bob", "POST", "/v1/policy-previews", body).status_code == 403
    assert crib.request("bob", "POST", "/v1/policy-checks", {"text": ""}).status_code == 403


def test_without_a_policy_the_page_says_what_that_means(crib: Crib) -> None:
    """Whoever has none learns what is let through, and starts from an example that is valid."""
    page = crib.page("dora", "/grants")
    page.route("**/v1/policy", lambda route: route.fulfill(json={"has_policy": False}))
    page.get_by_role("link", name="Policy").click()

    expect(page.get_by_text("No policy is in force")).to_be_visible()
    expect(page.get_by_text("Whoever may call tools may call all of them")).to_be_visible()
    page.get_by_role("button", name="Start from an example").click()
    expect(page.get_by_text("No faults")).to_be_visible()
    expect(page.get_by_text("This page never writes a file")).to_be_visible()
