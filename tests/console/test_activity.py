"""The activity page: its numbers are those of real calls, its filters live in the address."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser_page import PHONE, check_axe

if TYPE_CHECKING:
    from tests.console.crib import Crib, Person


@pytest.fixture(scope="module", autouse=True)
def played(crib: Crib) -> None:
    """Bob asks for the stock three times, breaks the till and asks for an order; ada once."""
    plays: tuple[tuple[Person, int], ...] = (("bob", 3), ("ada", 1))
    for person, calls in plays:
        client = crib.operations(person)
        session = client.create_session()
        for _ in range(calls):
            client.call_tool(session.session_id, "stock_level", {"part": "saws"})
        if person == "bob":
            client.call_tool(session.session_id, "broken", {})
            client.call_tool(session.session_id, "order_parts", {"part": "saws", "count": 50})


def total(page: Page, name: str) -> str:
    return (
        page.get_by_label("In this time").locator("div", has_text=name).locator("dd").inner_text()
    )


def rows(page: Page) -> list[str]:
    table = page.get_by_role("region", name="Calls, the newest first")
    expect(table.get_by_role("row").nth(1)).to_be_visible()
    return table.get_by_role("row").all_inner_texts()[1:]


def test_the_numbers_are_those_of_real_calls(crib: Crib) -> None:
    """Issue 15: who called what; totals, charts, their table and the list say the same."""
    page = crib.page("dora", "/activity")

    expect(page.get_by_role("img", name=re.compile("Calls: 6 in"))).to_be_visible()
    assert total(page, "Calls") == "6"
    assert total(page, "Failed or denied") == "1"
    assert len(rows(page)) == 6
    expect(page.get_by_role("button", name="stock_level")).to_be_visible()
    page.locator("summary", has_text="The numbers of the charts as a table").click()
    numbers = page.get_by_role("table", name="The numbers of the charts as a table")
    assert numbers.get_by_role("row").nth(1).get_by_role("cell").all_inner_texts()[1:3] == [
        "6",
        "1",
    ]
    check_axe(page)


def test_filters_are_in_the_address_and_narrow_everything(crib: Crib) -> None:
    """A view can be shared: the address has its filters, and a page opened with it shows it."""
    page = crib.page("dora", "/activity")
    page.get_by_label("Principal", exact=True).fill("bob")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("principal=bob"))
    expect(page.get_by_role("img", name=re.compile("Calls: 5 in"))).to_be_visible()
    page.get_by_label("Status").select_option("failed")
    expect(page.get_by_role("img", name=re.compile("Calls: 1 in"))).to_be_visible()
    (row,) = rows(page)
    assert "broken" in row

    shared = crib.page("dora", "/activity?range=24h&tool=stock_*&principal=ada")
    expect(shared.get_by_role("img", name=re.compile("Calls: 1 in"))).to_be_visible()
    assert shared.get_by_label("Time", exact=True).input_value() == "24h"
    shared.get_by_role("link", name=re.compile("Open the call of stock_level")).click()
    expect(shared).to_have_url(re.compile(r"/sessions/.*event=\d+"))


def test_the_csv_has_the_calls_of_the_filters(crib: Crib, tmp_path: Path) -> None:
    """What is downloaded is what the page shows, in the columns of the command line."""
    page = crib.page("dora", "/activity?principal=bob&tool=stock_level")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    file = tmp_path / "calls.csv"
    download.value.save_as(file)

    lines = [*csv.DictReader(io.StringIO(file.read_text()))]
    assert download.value.suggested_filename == "calls.csv"
    assert [(line["principal"], line["tool"], line["status"]) for line in lines] == [
        ("bob", "stock_level", "completed")
    ] * 3


def test_a_caller_sees_its_own_calls_and_nobody_elses(crib: Crib) -> None:
    """The page of a caller has the calls of its sessions, however it is asked."""
    page = crib.page("ada", "/activity?principal=bob")
    expect(page.get_by_role("img", name=re.compile("Calls: 5 in"))).to_be_visible()

    own = crib.page("bob", "/activity?principal=ada", size=PHONE, theme="dark")
    expect(own.get_by_text("No calls match these filters")).to_be_visible()
    own.get_by_role("button", name="Clear the filters").click()
    expect(own.get_by_role("img", name=re.compile("Calls: 5 in"))).to_be_visible()
    check_axe(own)


def test_an_empty_time_says_what_to_do(crib: Crib) -> None:
    """No calls: the page leads to tools and to a longer time."""
    page = crib.page("dora", "/activity?from=2020-01-01T00:00Z&to=2020-01-02T00:00Z")

    expect(page.get_by_text("No calls in this time")).to_be_visible()
    expect(page.get_by_role("link", name="Try a tool")).to_be_visible()
    page.get_by_role("button", name="Show the last 30 days").click()
    expect(page.get_by_role("img", name=re.compile("Calls: 6 in"))).to_be_visible()
