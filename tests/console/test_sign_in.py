"""Signing in to the console, and what an open page does when the sign-in ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.console.browser_page import PHONE, check_axe

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.crib import Crib

REFUSED = ("status of 401",)
"""What the browser writes on its console for each refusal."""


def link_of(crib: Crib) -> str:
    """A one-time link for the owner, as the commands make it."""
    return crib.request("owner", "POST", "/v1/sign-in-links", {}).json()["url"]


def test_a_link_signs_in_and_leaves_no_trace(crib: Crib) -> None:
    """The code is exchanged and gone from address and history; a second use says why not."""
    link = link_of(crib)
    page = crib.page(None, link, allow=REFUSED)
    expect(page.get_by_role("button", name="Who is signed in: owner")).to_be_visible()
    assert "code=" not in page.url
    page.go_back()
    assert "code=" not in page.url

    other = crib.page(None, link, allow=REFUSED)
    expect(other.get_by_role("alert")).to_contain_text("used already")
    assert "code=" not in other.url
    assert "code=sc_" not in crib.log()


def test_a_token_signs_in_and_leads_to_the_page_asked_for(crib: Crib) -> None:
    """A page that needs a sign-in is where one arrives; a wrong token is told, and kept out."""
    page = crib.page(None, "/inbox?tool=order_parts", allow=REFUSED)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    check_axe(page)
    page.get_by_label("Token").fill("wrong-token-0123456789")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known here")
    page.get_by_label("Token").fill(crib.token("carol"))
    page.keyboard.press("Enter")

    expect(page.get_by_role("button", name="Who is signed in: carol")).to_be_visible()
    assert page.url == f"{crib.url}/inbox?tool=order_parts"
    assert page.evaluate("document.cookie") == ""


def test_a_link_to_another_site_leads_nowhere(crib: Crib) -> None:
    """Where to go after the sign-in is a page of this server, whoever made the link."""
    page = crib.page(None, "/sign-in?from=//evil.example/inbox", allow=REFUSED)
    page.get_by_label("Token").fill(crib.token("dora"))
    page.keyboard.press("Enter")

    expect(page.get_by_role("button", name="Who is signed in: dora")).to_be_visible()
    assert page.url.startswith(crib.url)


def test_signing_out_ends_it(crib: Crib) -> None:
    """The menu of the person says who they are, and leads out; the way back is closed."""
    page = crib.page("bob", "/sessions", allow=REFUSED)
    page.get_by_role("button", name="Who is signed in: bob").click()
    expect(page.get_by_text("bob (caller)")).to_be_visible()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto("/sessions")

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def end_sign_in(crib: Crib, page: Page) -> None:
    """End the sign-in of a page behind its back."""
    me = page.context.request.get(f"{crib.url}/v1/me").json()
    answer = page.context.request.post(
        f"{crib.url}/v1/sign-out",
        data={},
        headers={"Origin": crib.url, "Toolcrib-CSRF": me["csrf"]},
    )
    assert answer.ok


def test_an_ended_sign_in_is_told_and_the_page_goes_on(crib: Crib) -> None:
    """A page whose sign-in has ended says so, keeps what was typed, and goes on after the next."""
    page = crib.page("ada", "/people", allow=REFUSED)
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name", exact=True).fill("somebody")
    end_sign_in(crib, page)
    page.get_by_role("checkbox", name="caller").check()
    page.get_by_role("button", name="Make the token").click()
    again = page.get_by_role("dialog", name="Your sign-in has ended")
    expect(again).to_be_visible()
    check_axe(page)
    again.get_by_label("Token").fill(crib.token("ada"))
    again.get_by_role("button", name="Sign in").click()
    expect(again).to_be_hidden()
    expect(page.get_by_label("Name", exact=True)).to_have_value("somebody")
    page.get_by_role("button", name="Make the token").click()

    expect(page.get_by_text("shown once")).to_be_visible()


def test_the_sign_in_fits_a_phone_in_the_dark(crib: Crib) -> None:
    """Nothing is cut, and axe finds nothing."""
    page = crib.page(None, "/sign-in", size=PHONE, theme="dark", allow=REFUSED)
    expect(page.get_by_label("Token")).to_be_visible()
    check_axe(page)

    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
