"""What each role sees, and what the server refuses when the page is passed by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from tests.console.crib import ROLES
from toolcrib.transports.http.accounts.routes import ACCOUNT_ROUTES
from toolcrib.transports.http.routes import ROUTES

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.crib import Crib, Person

_OF_READERS: Final = ("Sessions", "Chat", "Tools", "Servers", "Activity")
NAVIGATION: Final[dict[Person, tuple[str, ...]]] = {
    "ada": ("Inbox", *_OF_READERS, "Policy", "Grants", "People"),
    "carol": ("Inbox", "Tools", "Policy", "Grants"),
    "bob": ("Inbox", *_OF_READERS),
    "dora": ("Inbox", *_OF_READERS, "Policy", "Grants"),
}
"""The pages of an admin, an approver, a caller and an auditor."""

_ASK: Final = """async ([csrf, operations]) => {
  const statuses = {};
  for (const [name, method, path] of operations) {
    const answer = await fetch(path, {
      method,
      headers: {"Toolcrib-CSRF": csrf, "Content-Type": "application/json"},
      ...(method === "POST" ? {body: "{}"} : {}),
    });
    statuses[name] = answer.status;
  }
  return statuses;
}"""


def refused_to(person: Person) -> list[tuple[str, str, str]]:
    """Every operation that none of the person's roles has: name, method and a path."""
    roles = set(ROLES[person])
    return [
        (route.name, route.verb, route.path.replace("{", "").replace("}", ""))
        for route in (*ROUTES, *ACCOUNT_ROUTES)
        if "admin" not in roles
        and roles.isdisjoint(route.operation.roles)
        and route.operation.roles
    ]


def answers(page: Page, operations: list[tuple[str, str, str]]) -> dict[str, int]:
    """What the server answers to the page's own cookie."""
    csrf: Any = page.evaluate("async () => (await (await fetch('/v1/me')).json()).csrf")
    statuses: dict[str, int] = page.evaluate(_ASK, [csrf, operations])
    return statuses


@pytest.mark.parametrize("person", list(NAVIGATION))
def test_the_navigation_has_the_pages_of_the_role(crib: Crib, person: Person) -> None:
    """Nothing is offered that the role has no use for, and nothing is missing."""
    page = crib.page(person, "/inbox")
    links = page.get_by_role("navigation").first.get_by_role("link")
    expect(links).to_have_count(len(NAVIGATION[person]))

    for name in NAVIGATION[person]:
        expect(links.filter(has_text=name)).to_have_count(1)


@pytest.mark.parametrize("person", list(NAVIGATION))
def test_every_page_of_the_navigation_works_for_the_role(crib: Crib, person: Person) -> None:
    """No page that is offered asks the server for something that it refuses."""
    page = crib.page(person, "/inbox")
    for name in NAVIGATION[person]:
        page.get_by_role("navigation").first.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(page.get_by_text("Loading", exact=True)).to_have_count(0)

    expect(page.get_by_text("Your roles do not allow this")).to_have_count(0)


@pytest.mark.parametrize("person", ["carol", "bob", "dora"])
def test_the_server_refuses_what_the_role_may_not_do(crib: Crib, person: Person) -> None:
    """With the cookie of the page and its header: every operation of other roles is forbidden."""
    page = crib.page(person, "/inbox", allow=("status of 403",))
    operations = refused_to(person)

    assert len(operations) > 10
    assert answers(page, operations) == {name: 403 for name, _, _ in operations}


def test_the_page_of_people_is_for_admins(crib: Crib) -> None:
    """Whoever types its address is told so, and nothing of it is shown or asked for."""
    page = crib.page("dora", "/people")

    expect(page.get_by_text("Your roles do not allow this")).to_be_visible()
    expect(page.get_by_role("button", name="New token")).to_have_count(0)


def test_a_change_without_the_header_is_refused_from_the_page_itself(crib: Crib) -> None:
    """The cookie alone changes nothing, also for an admin."""
    page = crib.page("ada", "/inbox", allow=("status of 403",))
    status: int = page.evaluate(
        """async () => (await fetch("/v1/sessions", {
          method: "POST", body: "{}", headers: {"Content-Type": "application/json"},
        })).status"""
    )

    assert status == 403
    assert crib.operations("ada").list_sessions().sessions == []
