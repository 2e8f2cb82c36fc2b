"""Tool output, arguments and model text that attack the page: nothing runs, nothing is fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.crib import Crib

ATTACK = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "![p](https://evil.example/pixel.png) [here](https://evil.example/login) "
    "[run](javascript:window.hacked=1)<iframe src='https://evil.example'></iframe>"
    "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\u202c\u200b\x9b31m"
)

UNKNOWN = "\u202eloot\u200b\x9b<img src=x onerror='window.hacked = 1'>"
"""A tool that a model made up: its name is in the record all the same."""


@pytest.fixture(scope="module")
def hostile(crib: Crib) -> str:
    """A session whose tool, model, prompt and waiting arguments attack."""
    bob = crib.operations("bob")
    session = bob.create_session("bob:attack").session_id
    bob.send_prompt(session, f"Be hostile. {ATTACK}")
    bob.call_tool(session, "hostile_order", {"text": ATTACK})
    bob.call_tool(session, UNKNOWN, {})
    return session


def check_unharmed(crib: Crib, page: Page) -> None:
    """The page is itself: no script of the attack ran, and none of its elements is there. Requests
    to other origins fail the test by themselves.
    """
    assert page.evaluate("window.hacked") is None
    assert page.title() != "owned"
    for selector in (
        "img[src*='evil']",
        "img[onerror]",
        "iframe",
        "main script",
        "a[href^='javascript']",
        "a[href^='//']",
    ):
        assert page.locator(selector).count() == 0, selector
    for link in page.locator("a[href*='evil.example']").all():
        assert set((link.get_attribute("rel") or "").split()) >= {"noopener", "noreferrer"}
        assert "evil.example" in link.inner_text(), "a link says where it leads"
    text = page.locator("body").inner_text()
    for control in ("\x1b", "\u202e", "\u200b", "\x9b", "\x07"):
        assert control not in text, f"{control!r} is on the page as it is"
        assert control not in page.title()
        assert page.locator(f"[title*='{control}'], [aria-label*='{control}']").count() == 0


def test_the_transcript_shows_an_attack_as_text(crib: Crib, hostile: str) -> None:
    """Prompt, tool output and the model's Markdown: control characters are written out."""
    page = crib.page("ada", f"/sessions/{hostile}")
    expect(page.get_by_text("hostile").first).to_be_visible()
    expect(page.get_by_text("window.hacked = 1").first).to_be_visible()

    check_unharmed(crib, page)


def test_the_inbox_shows_hostile_arguments_as_text(crib: Crib, hostile: str) -> None:
    """What an approver decides about is what is there: a reversed name is shown as reversed."""
    page = crib.page("carol", "/inbox")
    expect(page.get_by_text("window.hacked = 1").first).to_be_visible()

    check_unharmed(crib, page)


def test_the_chat_shows_an_attack_as_text(crib: Crib, hostile: str) -> None:
    """The same session, where somebody talks to the agent."""
    page = crib.page("bob", f"/chat/{hostile}")
    expect(page.get_by_text("window.hacked = 1").first).to_be_visible()

    check_unharmed(crib, page)


def test_the_activity_shows_a_hostile_name_as_text(crib: Crib, hostile: str) -> None:
    """The name of a tool that a model made up, in the table, the filters and what is read aloud."""
    page = crib.page("ada", "/activity")
    expect(page.get_by_text("loot").first).to_be_visible()

    check_unharmed(crib, page)
