"""The grants page: what stands, in words, and its revocation, by role."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.console.browser_page import check_axe
from toolcrib.runtime.approval_messages import GrantTerms

if TYPE_CHECKING:
    from tests.console.crib import Crib


def granted(crib: Crib, count: int = 50) -> str:
    """Bob asks for an order, and carol approves it with a grant for others like it."""
    bob, carol = crib.operations("bob"), crib.operations("carol")
    session = bob.create_session()
    order: dict[str, Any] = {"part": "saws", "count": count}
    waiting = bob.call_tool(session.session_id, "order_parts", order)
    assert waiting.approval_id is not None
    terms = GrantTerms(
        scope="principal", arguments={"/count": {"max": count}}, uses=3, expires_in_seconds=3_600
    )
    carol.decide(waiting.approval_id, "approve", grant=terms)
    return session.session_id


def test_without_grants_the_page_says_how_one_comes_about(crib: Crib) -> None:
    """An empty page leads to the inbox, where grants are given."""
    page = crib.page("carol", "/grants")

    expect(page.get_by_text("No grants are in force")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("link", name="Go to the inbox")).to_be_visible()


def test_a_revoked_grant_lets_the_next_call_ask_again(crib: Crib) -> None:
    """Issue 15: grants with scope, uses, expiry, revoke."""
    session_id = granted(crib)
    bob = crib.operations("bob")
    order = {"part": "saws", "count": 40}
    assert bob.call_tool(session_id, "order_parts", order).status == "completed"

    page = crib.page("carol", "/grants")
    row = page.get_by_role("row").filter(has_text="order_parts")
    expect(row).to_contain_text("of bob")
    expect(row).to_contain_text("count is at most 50")
    expect(row.get_by_role("cell").nth(3)).to_have_text("2")
    check_axe(page)

    row.get_by_role("button", name=re.compile("Revoke")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("asks again")
    expect(dialog.get_by_role("button", name="Revoke")).not_to_be_focused()
    dialog.get_by_role("button", name="Revoke").click()

    expect(page.get_by_text("No grants are in force")).to_be_visible()
    page.get_by_role("tab", name="Past").click()
    expect(page.get_by_text("revoked by carol")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?state=past$"))
    assert bob.call_tool(session_id, "order_parts", order).status == "waiting"


def test_who_may_not_revoke_is_not_offered_it_and_is_refused(crib: Crib) -> None:
    """An auditor reads grants; a caller has no such page, and the server refuses both."""
    granted(crib, 60)
    grants = crib.operations("dora").list_grants().grants
    live = next(grant for grant in grants if grant.is_live)

    auditor = crib.page("dora", "/grants", theme="dark")
    expect(auditor.get_by_text("count is at most 60")).to_be_visible()
    expect(auditor.get_by_role("button", name=re.compile("Revoke"))).to_have_count(0)
    check_axe(auditor)
    assert crib.request("dora", "DELETE", f"/v1/grants/{live.grant_id}").status_code == 403

    caller = crib.page("bob", "/grants", allow=["403"])
    expect(caller.get_by_text("Your roles do not allow this")).to_be_visible()
    expect(caller.get_by_role("link", name="Grants")).to_have_count(0)
