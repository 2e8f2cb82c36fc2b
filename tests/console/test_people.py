"""The page of people: tokens and sign-ins of everybody, for admins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2
from playwright.sync_api import expect

from tests.console.browser_page import PHONE, check_axe
from tests.helpers.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.console.crib import Crib

REFUSED = ("status of 401",)


def card(page: Page, name: str) -> Locator:
    """The part of the page about one person."""
    return page.get_by_role("article", name=name, exact=True)


def status_of(crib: Crib, token: str) -> int:
    """What the server answers to a token."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.get(f"{crib.url}/v1/me", headers=headers, timeout=PATIENCE).status_code


def test_an_admin_makes_replaces_and_revokes_a_token(crib: Crib) -> None:
    """Each secret is shown once and works; what is replaced or revoked works no more."""
    page = crib.page("ada", "/people")
    page.get_by_role("button", name="New token").click()
    make = page.get_by_role("button", name="Make the token")
    expect(make).to_be_disabled()
    page.get_by_label("Name", exact=True).fill("ci")
    page.get_by_role("checkbox", name="caller").check()
    page.get_by_label("Groups").fill("builders, robots")
    check_axe(page)
    make.click()
    first = page.locator("[data-secret]").inner_text()
    page.get_by_role("button", name="Done").click()
    assert status_of(crib, first) == 200
    assert first not in page.content()

    expect(card(page, "ci")).to_contain_text("builders, robots")
    card(page, "ci").get_by_role("button", name="Replace token").click()
    page.get_by_role("button", name="Replace the token").click()
    second = page.locator("[data-secret]").inner_text()
    page.get_by_role("button", name="Done").click()
    assert [status_of(crib, first), status_of(crib, second)] == [401, 200]

    card(page, "ci").get_by_role("button", name="Revoke token").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(card(page, "ci")).to_have_count(0)
    assert status_of(crib, second) == 401


def test_a_fault_of_the_form_is_told_and_nothing_is_lost(crib: Crib) -> None:
    """The server's words stand in the dialog, with what was typed."""
    page = crib.page("ada", "/people", allow=("status of 422",))
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name", exact=True).fill("owner")
    page.get_by_role("checkbox", name="caller").check()
    page.get_by_role("button", name="Make the token").click()

    expect(page.get_by_role("alert")).to_contain_text("owner of a server")
    expect(page.get_by_label("Name", exact=True)).to_have_value("owner")


def test_an_admin_ends_the_sign_in_of_another(crib: Crib) -> None:
    """The other browser is out at once, and its page says so."""
    bob = crib.page("bob", "/sessions", allow=REFUSED)
    expect(bob.get_by_role("button", name="Who is signed in: bob")).to_be_visible()
    page = crib.page("ada", "/people?search=bob")
    expect(page.get_by_text("1 person or program")).to_be_visible()
    card(page, "bob").get_by_role("button", name="End the sign-in").first.click()
    page.get_by_role("dialog").get_by_role("button", name="End").click()
    expect(card(page, "bob").get_by_role("button", name="End the sign-in")).to_have_count(0)
    bob.evaluate("fetch('/v1/me')")
    bob.get_by_role("link", name="Activity").click()

    expect(bob.get_by_role("dialog", name="Your sign-in has ended")).to_be_visible()


def test_people_fit_every_screen(crib: Crib) -> None:
    """At 390 and 1440 pixels, light and dark, nothing is cut and axe finds nothing."""
    wide = crib.page("ada", "/people")
    expect(card(wide, "ada").get_by_text("this browser")).to_be_visible()
    check_axe(wide)
    phone = crib.page("ada", "/people", size=PHONE, theme="dark")
    expect(card(phone, "owner")).to_be_visible()
    check_axe(phone)

    assert phone.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
