"""The console as a whole: what loads it, how fast, and what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.console.crib import Crib


def test_the_page_opens(crib: Crib) -> None:
    """A person who is signed in sees the navigation."""
    page = crib.page("ada", "/sessions")

    expect(page.get_by_role("navigation").first).to_be_visible()
    assert crib.operations("ada").list_sessions().sessions == []
