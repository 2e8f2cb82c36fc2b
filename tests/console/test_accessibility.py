"""Every page of the console, in both themes: axe finds nothing, and nothing is cut at any width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.console.browser_page import PHONE, Theme, check_axe, settle
from tests.console.story import Story, play_story

if TYPE_CHECKING:
    from tests.console.crib import Crib

NAMES = [*Story("", "", "").paths, "calls", "hostile"]
WIDTHS = (380, 768, 1600)


@pytest.fixture(scope="module")
def story(crib: Crib) -> Story:
    """Something to show on every page."""
    return play_story(crib)


def path_of(story: Story, name: str) -> str:
    """The path of a page of the story."""
    more = {"calls": f"/sessions/{story.calls}", "hostile": f"/sessions/{story.hostile}"}
    return {**story.paths, **more}[name]


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_and_nothing_is_cut(crib: Crib, story: Story, name: str) -> None:
    """Names, roles, contrast, headings and landmarks hold on a desktop and on a phone, in the light
    and in the dark. From 380 to 1600 pixels the page fits: what is wide scrolls in its own box.
    """
    page = crib.page("ada", path_of(story, name))
    settle(page)
    check_axe(page)
    page.emulate_media(color_scheme="dark")
    settle(page)
    check_axe(page)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert beyond <= 0, f"{name} is {beyond} pixels wider than {width}"
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    settle(page)
    check_axe(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_where_nobody_is_signed_in(crib: Crib, theme: Theme) -> None:
    """The sign-in page is a page as well."""
    page = crib.page(None, "/sign-in", theme=theme, allow=["401"])
    expect(page.get_by_role("heading", level=1)).to_be_visible()

    check_axe(page)


def test_the_keyboard_reaches_every_page(crib: Crib, story: Story) -> None:
    """The first stop of Tab skips the navigation; Enter follows a link of it."""
    page = crib.page("ada", "/inbox")
    settle(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.get_by_role("link", name="Tools", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{crib.url}/tools")
