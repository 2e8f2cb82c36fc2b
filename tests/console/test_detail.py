"""One event in full: its arguments at each point, its result, its proof, and files to save."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from tests.console.browser_page import PHONE, check_axe
from tests.console.crib import TOOLS, Crib, crib_in
from tests.helpers.patience import PATIENCE
from toolcrib.ledger.record import GENESIS, Record, seal_payload
from toolcrib.store import SqliteStore
from toolcrib.store.store import Commit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from playwright.sync_api import Locator, Page

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
MORE_TOOLS: Final = f'''

@tool(is_read_only=True)
def report(lines: int) -> str:
    """Say more than a model reads."""
    return "<h1>A line of the report</h1>\\n" * lines


@tool(is_read_only=True)
def draw() -> dict[str, str]:
    """Draw a pixel."""
    return {{"mimeType": "image/png", "data": "{PNG}"}}


@tool(is_read_only=True)
def rows() -> list[dict[str, object]]:
    """List the shelves."""
    return [{{"shelf": "a\\u202eb", "count": 1}}, {{"shelf": "c", "count": 2}}]
'''


@pytest.fixture(scope="module")
def crib(tmp_path_factory: pytest.TempPathFactory, built_page: None) -> Generator[Crib]:
    """The workshop, with tools whose results are long, drawn and listed."""
    with crib_in(tmp_path_factory.mktemp("crib"), tools=TOOLS + MORE_TOOLS) as started:
        yield started


def events_of(crib: Crib, session_id: str) -> list[dict[str, Any]]:
    return crib.operations("dora").list_events(session_id).events


def seq_of(crib: Crib, session_id: str, kind: str) -> int:
    return next(each["seq"] for each in events_of(crib, session_id) if each["kind"] == kind)


def edited_order(crib: Crib) -> str:
    """A session with an order that carol made smaller."""
    bob, carol = crib.operations("bob"), crib.operations("carol")
    session_id = bob.create_session().session_id
    bob.send_prompt(session_id, "please order", waits=False)
    (waiting,) = carol.list_approvals(session_id=session_id).approvals
    carol.decide(
        waiting.approval_id,
        "approve",
        arguments={"part": "saws", "count": 20, "note": "line one\nline two"},
    )
    bob.resume_prompt(session_id)
    return session_id


def called(crib: Crib, tool: str, **arguments: object) -> str:
    """A session with one call."""
    bob = crib.operations("bob")
    session_id = bob.create_session().session_id
    bob.call_tool(session_id, tool, arguments)
    return session_id


def open_event(crib: Crib, session_id: str, seq: int, **options: Any) -> tuple[Page, Locator]:
    page = crib.page("dora", f"/sessions/{session_id}?event={seq}", **options)
    pane = page.get_by_role("article", name=f"Event {seq}", exact=True)
    expect(pane).to_be_visible()
    return page, pane


def open_tab(pane: Locator, name: str) -> Locator:
    pane.get_by_role("tab", name=name, exact=True).first.click()
    return pane.get_by_role("tabpanel", name=name, exact=True)


def test_an_edited_call_shows_all_versions_of_its_arguments(crib: Crib) -> None:
    """What the model proposed, what the approver saw, the edit with its author, and what ran."""
    session_id = edited_order(crib)
    _, pane = open_event(crib, session_id, seq_of(crib, session_id, "tool.invoked"))

    arguments = open_tab(pane, "Arguments")

    proposed = arguments.get_by_role("region", name="Proposed by the model")
    expect(proposed).to_contain_text("50")
    edited = arguments.get_by_role("region", name="Edited by carol")
    expect(edited.get_by_role("deletion").first).to_contain_text("50")
    expect(edited.get_by_role("insertion").first).to_contain_text("20")
    executed = arguments.get_by_role("region", name="Executed")
    expect(executed).to_contain_text("The same as above.")
    expect(executed).to_contain_text("line two")
    executed.get_by_role("button", name="Raw").click()
    expect(executed.get_by_role("group", name="Arguments as JSON")).to_contain_text("count:")


def test_the_tabs_say_who_decided_and_when_it_ran(crib: Crib) -> None:
    """Summary, result, cost and timing of a call; a price that nobody knows stays unknown."""
    session_id = edited_order(crib)
    page, pane = open_event(crib, session_id, seq_of(crib, session_id, "tool.invoked"))

    summary = open_tab(pane, "Summary")
    expect(summary).to_contain_text("approved with other arguments")
    expect(summary).to_contain_text("carol")
    expect(open_tab(pane, "Result")).to_contain_text("20 more of saws are ordered")
    expect(open_tab(pane, "Cost")).to_contain_text("No provider billed this call")
    expect(open_tab(pane, "Timing")).to_contain_text("Waited for a decision")
    reply = seq_of(crib, session_id, "model.responded")
    page.goto(f"/sessions/{session_id}?event={reply}")
    pane = page.get_by_role("article", name=f"Event {reply}", exact=True)
    expect(open_tab(pane, "Cost")).to_contain_text("Nobody knows the price.")


def test_the_tabs_work_by_keyboard_and_for_axe(crib: Crib) -> None:
    """Arrows move between tabs; axe finds nothing, on a phone in the dark too."""
    session_id = edited_order(crib)
    seq = seq_of(crib, session_id, "tool.invoked")
    page, pane = open_event(crib, session_id, seq)

    pane.get_by_role("tab", name="Summary").focus()
    for name in ("Arguments", "Result", "Cost", "Timing", "Audit"):
        page.keyboard.press("ArrowRight")
        expect(pane.get_by_role("tab", name=name, exact=True)).to_be_focused()
        expect(pane.get_by_role("tabpanel", name=name, exact=True)).to_be_visible()
        check_axe(page)
    dark, pane = open_event(crib, session_id, seq, size=PHONE, theme="dark")
    for name in ("Arguments", "Audit"):
        open_tab(pane, name)
        check_axe(dark)


def test_the_waterfall_tells_waiting_from_running_and_selects(crib: Crib) -> None:
    """Each bar says in words how long it waited and ran, and opens its event."""
    session_id = edited_order(crib)
    page, _ = open_event(crib, session_id, seq_of(crib, session_id, "prompt.started"))

    strip = page.get_by_role("region", name="When calls waited and ran")
    bar = strip.get_by_role("button", name=re.compile(r"^order_parts waited .+, ran .+, ok$"))
    expect(bar.locator("[data-span=waiting]")).to_have_count(1)
    expect(bar.locator("[data-span=running]")).to_have_count(1)
    bar.click()

    seq = seq_of(crib, session_id, "tool.invoked")
    expect(page.get_by_role("article", name=f"Event {seq}", exact=True)).to_be_visible()
    expect(bar).to_have_attribute("aria-current", "true")


def verify(pane: Locator) -> Locator:
    audit = open_tab(pane, "Audit")
    audit.get_by_role("button", name="Verify the whole ledger here").click()
    return audit


def change(crib: Crib, session_id: str, seq: int, statement: str) -> None:
    """Change the store behind the server's back."""
    database = sqlite3.connect(crib.folder / "crib.sqlite3")
    with database:
        (number,) = database.execute(
            "SELECT id FROM records WHERE session_id = ? AND seq = ?", (session_id, seq)
        ).fetchone()
        assert database.execute(statement, (number,)).rowcount == 1
    database.close()


def test_the_ledger_is_verified_in_the_browser(crib: Crib) -> None:
    """Every hash is computed here: the number of records and the head are those of the store."""
    session_id = edited_order(crib)
    head = crib.operations("dora").list_records(session_id).head
    assert head is not None
    page, pane = open_event(crib, session_id, seq_of(crib, session_id, "tool.invoked"))

    audit = verify(pane)

    expect(audit).to_contain_text(f"Verified here: {head.seq} records")
    expect(audit).to_contain_text(head.hash)
    expect(audit).to_contain_text("This browser had not verified this session before")
    page.reload()
    again = page.get_by_role("article")
    expect(verify(again)).to_contain_text(f"Record {head.seq} is the one that this browser")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE payloads SET payload = CAST(replace(payload, 'fewer', 'more!') AS BLOB)"
            " WHERE id = ?",
            "The payload was changed",
        ),
        ("UPDATE records SET at = at + 60 WHERE id = ?", "The record was changed"),
    ],
    ids=["payload", "record"],
)
def test_a_change_in_the_store_is_found_in_the_browser(
    crib: Crib, statement: str, words: str
) -> None:
    """The server checks nothing here: the browser names the record that somebody changed."""
    bob = crib.operations("bob")
    session_id = bob.create_session().session_id
    for _ in range(3):
        bob.call_tool(session_id, "order_parts", {"part": "nuts", "count": 1, "note": "fewer"})
    seq = seq_of(crib, session_id, "tool.invoked")
    change(crib, session_id, seq, statement)
    page, pane = open_event(crib, session_id, 1)

    audit = verify(pane)

    expect(audit).to_contain_text(f"it breaks at record {seq}")
    expect(audit).to_contain_text(words)
    expect(audit.locator("[data-verdict=whole]")).to_have_count(0)
    audit.get_by_role("link", name=f"Go to record {seq}").click()
    expect(page.get_by_role("article", name=f"Event {seq}", exact=True)).to_be_visible()


def test_a_ledger_that_was_shortened_since_is_found(crib: Crib) -> None:
    """The head that this browser verified before is the proof that there was more."""
    bob = crib.operations("bob")
    session_id = bob.create_session().session_id
    for _ in range(2):
        bob.call_tool(session_id, "stock_level", {"part": "nuts"})
    # A closed session has no stream of events.
    page, pane = open_event(crib, session_id, 1, allow=[r"404 .*/events"])
    expect(verify(pane).locator("[data-verdict=whole]")).to_be_visible()
    bob.close_session(session_id)
    last = events_of(crib, session_id)[-1]["seq"]
    change(crib, session_id, last, "DELETE FROM payloads WHERE id = ?")
    change(crib, session_id, last, "DELETE FROM records WHERE id = ?")
    page.reload()

    audit = verify(page.get_by_role("article"))

    expect(audit).to_contain_text(f"it breaks at record {last}")
    expect(audit).to_contain_text("The end was cut off")


def test_a_session_is_exported(crib: Crib, tmp_path: Path) -> None:
    """The link saves all events, one a line."""
    session_id = called(crib, "stock_level", part="nuts")
    page, _ = open_event(crib, session_id, 1)

    with page.expect_download() as download:
        page.get_by_role("link", name="Export as JSONL").click()
    download.value.save_as(tmp_path / "export.jsonl")

    lines = (tmp_path / "export.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == events_of(crib, session_id)
    assert (
        download.value.suggested_filename == f"{re.sub('[^A-Za-z0-9._-]', '_', session_id)}.jsonl"
    )


def test_a_long_result_is_shown_whole_and_saved(crib: Crib, tmp_path: Path) -> None:
    """The model saw a part; the whole is text, whatever it looks like."""
    session_id = called(crib, "report", lines=4_000)
    page, pane = open_event(crib, session_id, seq_of(crib, session_id, "tool.invoked"))
    result = open_tab(pane, "Result")

    result.get_by_role("button", name="Show the whole result").click()
    result.get_by_role("button", name=re.compile("Show all 4,001 lines")).click()
    expect(result.get_by_text("A line of the report").last).to_be_visible()
    expect(page.get_by_role("heading", name="A line of the report")).to_have_count(0)
    with page.expect_download() as download:
        result.get_by_role("link", name="Download").click()
    download.value.save_as(tmp_path / "report.txt")

    assert (tmp_path / "report.txt").read_text("utf-8").count("<h1>A line") == 4_000


def test_pictures_and_tables_are_shown_as_such(crib: Crib) -> None:
    """A picture comes from the ledger as a blob; a list of objects is a table."""
    session_id = called(crib, "draw")
    _, pane = open_event(crib, session_id, seq_of(crib, session_id, "tool.invoked"))
    picture = open_tab(pane, "Result").get_by_role("img", name="Picture 1")
    expect(picture).to_have_attribute("src", re.compile("^blob:"))
    expect(picture).to_have_js_property("naturalWidth", 1)

    session_id = called(crib, "rows")
    _, pane = open_event(crib, session_id, seq_of(crib, session_id, "tool.invoked"))
    result = open_tab(pane, "Result")
    result.get_by_role("tab", name="For the program").click()
    expect(result.get_by_role("cell", name=r"a\u202eb")).to_be_visible()


def test_a_hostile_result_is_shown_and_obeyed_by_nobody(crib: Crib) -> None:
    """Scripts, handlers, links and pictures of elsewhere, terminal codes and turned text: all of it
    is text. The page that is watched made no request and ran nothing.
    """
    session_id = crib.operations("bob").create_session().session_id
    crib.operations("bob").send_prompt(session_id, "be hostile")
    for kind, tab in (("tool.invoked", "Result"), ("prompt.answered", "Summary")):
        page, pane = open_event(crib, session_id, seq_of(crib, session_id, kind))
        panel = open_tab(pane, tab)

        expect(panel.get_by_text("<script>window.hacked = 1</script>").first).to_be_visible()
        expect(panel.locator("[data-untrusted=terminal]").first).to_have_text(r"\u001b[2J")
        expect(panel.locator("[data-untrusted=control]").first).to_have_text(r"\u202e")
        assert panel.locator("script, img, iframe, [onerror], [onclick]").count() == 0
        assert page.evaluate("window.hacked") is None
        for link in panel.get_by_role("link").all():
            href = link.get_attribute("href") or ""
            if not href.startswith(("/", "#")):
                assert href.startswith("https://evil.example/")
                assert link.get_attribute("rel") == "noopener noreferrer nofollow"
                assert "evil.example" in (link.text_content() or "")
        text = panel.inner_text()
        assert not re.search("[\x00-\x08\x1b\x9b\u202e\u200b]", text)


def write_long_ledger(crib: Crib, session_id: str, length: int) -> None:
    """A ledger as a server writes it, while none runs."""
    payload = json.dumps({"tool": "slow", "chunk": "a line of output " * 20}).encode()
    records: list[Record] = []
    previous = GENESIS
    for seq in range(1, length + 1):
        call_id = f"call_{seq // 3}"
        record = seal_payload(session_id, "tool.output", 1e9 + seq, call_id, payload, seq, previous)
        previous = record.hash
        records.append(record)
    with SqliteStore(crib.folder / "crib.sqlite3") as store:
        lease = store.acquire(session_id, owner="bob")
        store.commit(lease, Commit(records, []))
        store.release(lease)


def test_a_long_ledger_is_verified_without_holding_up_the_page(
    crib: Crib, record_property: Callable[[str, object], None]
) -> None:
    """20,000 records, and no task of the page takes so long that a person feels it."""
    crib.kill()
    write_long_ledger(crib, "long", 20_000)
    crib.start()
    page, pane = open_event(crib, "long", 20_000, allow=[r"404 .*/events"])
    page.evaluate(
        """() => {
            window.longest = 0;
            new PerformanceObserver((list) => {
                for (const task of list.getEntries())
                    window.longest = Math.max(window.longest, task.duration);
            }).observe({entryTypes: ["longtask"]});
        }"""
    )

    verdict = verify(pane).locator("[data-verdict=whole]")

    expect(verdict).to_contain_text("Verified here: 20,000 records", timeout=PATIENCE * 1_000)
    longest = page.evaluate("window.longest")
    record_property("longest task in ms", longest)
    # Twice what a quiet machine may take at most: others may compute beside it.
    assert longest < 200
