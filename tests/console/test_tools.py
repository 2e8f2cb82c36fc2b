"""Tools and MCP servers in the console: the table, the form that runs a tool, what the policy says,
and servers that die, come back and change their tools.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.console.browser_page import PHONE, ROOT, check_axe
from tests.console.crib import POLICY, PROJECT, Crib, crib_in

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PEER: Final = ROOT / "tests" / "mcp_client" / "peer.py"
SERVERS: Final = """\
mcp_servers:
  peer:
    command: /bin/sh
    args: [-c, {script}]
    cwd: {folder}
    approval: policy
"""
MORE_RULES: Final = """\
  - id: peers
    allow: [peer_add, peer_die, peer_shift, peer_wait_long]
"""


@pytest.fixture(scope="module")
def crib(tmp_path_factory: pytest.TempPathFactory, built_page: None) -> Generator[Crib]:
    """A server with a mounted one, which does not start while there is a file `down`."""
    folder = tmp_path_factory.mktemp("tools")
    script = f"test ! -e down && exec {sys.executable} {PEER} stdio newer"
    servers = SERVERS.format(script=json.dumps(script), folder=json.dumps(str(folder)))
    with crib_in(folder, policy=POLICY + MORE_RULES, project=PROJECT + servers) as started:
        yield started


def row_of(page: Page, name: str) -> Locator:
    """The row of a tool."""
    link = page.get_by_role("link", name=name, exact=True)
    return page.get_by_role("row").filter(has=link)


def fill(page: Page, **values: str) -> None:
    """Type into fields of the form."""
    for name, value in values.items():
        page.get_by_label(re.compile(f"^{name}")).first.fill(value)


def run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def test_the_table_has_the_numbers_of_real_calls(crib: Crib) -> None:
    """Calls and errors are those that were made; what nobody called says so."""
    operations = crib.operations("bob")
    session = operations.create_session().session_id
    for _ in range(3):
        operations.call_tool(session, "stock_level", {"part": "saws"})
    operations.call_tool(session, "broken", {})
    page = crib.page("dora", "/tools")

    stock, broken = row_of(page, "stock_level"), row_of(page, "broken")
    expect(stock.locator("[data-label=Calls]")).to_have_text("3")
    expect(stock.locator("[data-label=Errors]")).to_have_text("0")
    expect(broken.locator("[data-label=Errors]")).to_have_text("1")
    expect(stock.locator("[data-label=p95]")).to_have_text(re.compile(r"\d+ ms"))
    expect(row_of(page, "slow").locator("[data-label='Last used']")).to_have_text("never")
    # A server's tool and the rule that decides about it, by its line.
    peer = row_of(page, "peer_add")
    expect(peer.locator("[data-label=Source]")).to_contain_text("mcp:peer")
    expect(peer.locator("[data-label='Rule in force']")).to_contain_text(
        re.compile(r"runs.*policy\.yaml:\d+")
    )
    check_axe(page)

    page.get_by_role("link", name="Calls", exact=True).click()
    expect(page.get_by_role("columnheader", name="Calls")).to_have_attribute(
        "aria-sort", "descending"
    )
    expect(page.get_by_role("row").nth(1)).to_contain_text("stock_level")
    page.get_by_label("Search").fill("till")
    expect(page.get_by_role("row")).to_have_count(2)
    expect(page).to_have_url(re.compile("search=till"))
    page.get_by_label("Search").fill("nothing like it")
    expect(page.get_by_text("No tool matches")).to_be_visible()


def test_a_tool_is_run_with_its_form_as_an_operator_call(crib: Crib) -> None:
    """The form calls through the real gate, shows the result, and the record says who and how."""
    page = crib.page("bob", "/tools/order_parts")
    page.get_by_label(re.compile("^part")).select_option(label="nuts")
    fill(page, count="3")

    run(page)

    expect(page.get_by_text("3 more of nuts are ordered").first).to_be_visible()
    expect(page.get_by_text("operator call", exact=True).first).to_be_visible()
    [call] = crib.operations("dora").list_calls(tool="order_parts", principal="bob").calls
    assert (call.transport, call.status, call.turn) == ("console", "completed", 0)
    session = crib.operations("dora").get_session(call.session_id)
    assert session.metadata["purpose"] == "operator call"
    assert session.state == "closed"
    page.get_by_role("link", name="See the record").click()
    expect(page).to_have_url(re.compile(f"/sessions/{call.session_id}"))


def test_invalid_fields_are_marked_and_nothing_runs(crib: Crib) -> None:
    """What does not fit the schema is shown at its field, before anything is sent."""
    page = crib.page("bob", "/tools/order_parts")
    before = len(crib.operations("dora").list_calls(tool="order_parts").calls)

    run(page)

    expect(page.get_by_text("Correct these first")).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="/count")).to_be_visible()
    check_axe(page)
    page.get_by_role("button", name="As JSON").click()
    page.get_by_label("JSON", exact=True).fill('{"part": "saws", "count": 1')
    run(page)
    expect(page.get_by_role("alert").filter(has_text="Write a JSON object").first).to_be_visible()
    assert len(crib.operations("dora").list_calls(tool="order_parts").calls) == before


def test_a_call_that_waits_goes_on_when_it_is_approved(crib: Crib) -> None:
    """It says that it waits and where to decide; a reload keeps it, and a yes runs it here."""
    page = crib.page("bob", "/tools/write_file")
    fill(page, path="plan.md", content="Buy saws.")
    run(page)
    expect(page.get_by_text("It waits for approval")).to_be_visible()
    expect(page.get_by_text("Somebody looks at every file.").first).to_be_visible()
    expect(page.get_by_role("link", name="See it in the inbox")).to_be_visible()
    check_axe(page)

    page.reload()
    expect(page.get_by_text("It waits for approval")).to_be_visible()
    [request] = [
        each
        for each in crib.operations("carol").list_approvals().approvals
        if each.arguments["path"] == "plan.md"
    ]
    crib.operations("carol").decide(request.approval_id, "approve")

    expect(page.get_by_text("9 characters are in plan.md.").first).to_be_visible()
    [call] = crib.operations("dora").list_calls(tool="write_file").calls
    assert (call.status, call.approver) == ("completed", "carol")


def test_a_running_call_is_followed_and_stopped(crib: Crib) -> None:
    """Progress shows while the tool runs, and Stop ends the call, not only the wait."""
    page = crib.page("bob", "/tools/peer_wait_long")
    run(page)
    expect(page.get_by_text("begun")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "1")

    page.get_by_role("button", name="Stop").click()

    expect(page.get_by_text("It was stopped")).to_be_visible()
    [call] = crib.operations("dora").list_calls(tool="peer_wait_long").calls
    assert (call.status, call.failure) == ("failed", "cancelled")


def test_the_policy_is_explained_for_these_arguments(crib: Crib) -> None:
    """The verdict names the rule and its line, and every other rule why it does not match."""
    page = crib.page("bob", "/tools/order_parts")
    page.get_by_label(re.compile("^part")).select_option(label="saws")
    fill(page, count="5000")

    page.get_by_role("button", name="Explain the policy").click()

    region = page.get_by_role("region", name="What the policy says")
    expect(region.get_by_text("It would be refused.")).to_be_visible()
    expect(region.get_by_text("Nobody needs that many.").first).to_be_visible()
    line = POLICY.splitlines().index("  - id: absurd orders") + 1
    absurd = region.get_by_role("row").filter(has_text="absurd orders")
    expect(absurd).to_contain_text("matches")
    expect(absurd).to_contain_text(f"policy.yaml:{line}")
    expect(region.get_by_role("row").filter(has_text="small orders")).to_contain_text("/count")
    assert "Whose call" not in page.content()
    check_axe(page)


def test_an_auditor_sees_and_does_not_run(crib: Crib) -> None:
    """There is no Run for an auditor, and the server refuses what the page does not offer."""
    page = crib.page("dora", "/tools/order_parts")
    expect(page.get_by_role("button", name="Explain the policy")).to_be_visible()
    expect(page.get_by_role("button", name="Run", exact=True)).to_have_count(0)
    page.get_by_label("Whose call").fill("bob")
    page.get_by_label(re.compile("^part")).select_option(label="saws")
    fill(page, count="50")
    page.get_by_role("button", name="Explain the policy").click()
    expect(page.get_by_text("For bob.")).to_be_visible()
    expect(page.get_by_text("It would wait for approval.")).to_be_visible()

    made = crib.request("dora", "POST", "/v1/sessions", {})
    others = crib.request(
        "bob", "POST", "/v1/policy-explanations", {"tool": "order_parts", "principal": "ada"}
    )

    assert (made.status_code, others.status_code) == (403, 403)


def test_a_server_that_dies_is_shown_and_comes_back(crib: Crib) -> None:
    """State, last error and restarts follow what happens, without a reload of the page."""
    page = crib.page("dora", "/servers")
    card = page.get_by_role("article")
    expect(card.get_by_text("connected", exact=True)).to_be_visible()
    check_axe(page)
    down = Path(crib.folder) / "down"
    down.touch()
    operations = crib.operations("bob")
    session = operations.create_session().session_id

    operations.call_tool(session, "peer_die", {})

    expect(card.get_by_text("not connected", exact=True)).to_be_visible()
    expect(card.get_by_text(re.compile("The next attempt is"))).to_be_visible()
    down.unlink()
    expect(card.get_by_text("connected", exact=True)).to_be_visible(timeout=20_000)
    restarts = card.locator("dl > div").filter(has_text="Restarts").locator("dd")
    expect(restarts).to_have_text("1")
    expect(card.locator("dl > div").filter(has_text="Last error")).not_to_contain_text("none")


def test_a_tool_that_changes_is_shown_with_both_digests(crib: Crib) -> None:
    """A server that describes a tool anew cannot do so unseen."""
    operations = crib.operations("bob")
    session = operations.create_session().session_id
    old = operations.get_catalog_tool("peer_shifty").entry.digest
    page = crib.page("dora", "/servers")
    expect(page.get_by_text("None of its tools has changed")).to_be_visible()

    operations.call_tool(session, "peer_shift", {"description": "Deletes everything."})

    expect(page.get_by_text("changed", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="peer_shifty")).to_be_visible()
    expect(page.get_by_text(old[:10])).to_be_visible()
    check_axe(page)


@pytest.mark.parametrize("path", ["/tools", "/tools/write_file", "/servers"])
def test_the_pages_fit_a_phone_in_the_dark(crib: Crib, path: str) -> None:
    """Nothing is wider than the screen, and axe finds nothing in the dark theme."""
    page = crib.page("ada", path, size=PHONE, theme="dark")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(0)

    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    check_axe(page)


def test_a_hostile_result_is_only_shown(crib: Crib) -> None:
    """What a tool answers is text in the page of the tool too: nothing of it runs or loads."""
    page = crib.page("bob", "/tools/hostile")
    run(page)

    expect(page.get_by_text("It ran").first).to_be_visible()
    expect(page.get_by_text("evil.example").first).to_be_visible()
    assert page.evaluate("window.hacked") is None


def test_a_waiting_call_survives_the_server(crib: Crib) -> None:
    """The server dies and is back, somebody approves, and the page runs the call it shows."""
    page = crib.page("bob", "/tools/write_file", allow=["Failed to load resource", "ERR_"])
    fill(page, path="late.md", content="Still here.")
    run(page)
    expect(page.get_by_text("It waits for approval")).to_be_visible()

    crib.restart()
    carol = crib.operations("carol")
    [request] = [
        each for each in carol.list_approvals().approvals if each.arguments["path"] == "late.md"
    ]
    carol.decide(request.approval_id, "approve")

    text = page.get_by_text("11 characters are in late.md.").first
    expect(text).to_be_visible(timeout=30_000)
