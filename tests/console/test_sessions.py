"""The sessions in the console: found in a list, and read as a timeline that is live."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.console.browser_page import DESKTOP, PHONE, check_axe
from tests.console.crib import PROJECT, SCENARIO, TOOLS, Crib, crib_in
from toolcrib import Session, SqliteStore
from toolcrib.ledger.events import CallStarted, ToolInvoked
from toolcrib.store.ledger_writer import entry_of
from toolcrib.tools.identity import ToolRef

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

MORE_TOOLS = (
    TOOLS
    + '''

from toolcrib import Prompt, ToolContext
from toolcrib.prompt import MarkdownSection

GATE = asyncio.Event()


@tool(is_read_only=True)
async def count_slowly(ctx: ToolContext) -> str:
    """Count, and say how far it is."""
    ctx.output("first shelf\\n")
    ctx.progress(1, 3, "one of three")
    await GATE.wait()
    ctx.progress(3, 3, "all three")
    return "counted"


@tool(is_read_only=True)
async def open_gate() -> str:
    """Let go of whoever waits at the gate."""
    GATE.set()
    GATE.clear()
    return "open"


@tool(is_read_only=True)
async def translate(text: str, ctx: ToolContext) -> str:
    """Translate a text, with a model."""
    section = MarkdownSection(title="Task", key="task", template=f"nested question about {text}")
    prompt = Prompt[str](ns="shop", key="translate", sections=[section])
    response = await ctx.adapter.evaluate_async(prompt, session=ctx.session)
    return str(response.text)


from pathlib import Path

from toolcrib.embedded import BackendText, EmbeddedAdapter, EmbeddedProvider
from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend


class Hesitant(ScriptedBackend):
    """Says half of a sentence, and the rest when there is a file."""

    async def propose(self, request):
        async for part in super().propose(request):
            if isinstance(part, BackendText) and "slowly" in part.text:
                yield BackendText("Half of ")
                while not Path(__file__).with_name("gate").exists():
                    await asyncio.sleep(0.02)
            yield part


adapter = EmbeddedAdapter(
    EmbeddedProvider(Hesitant.from_file(Path(__file__).with_name("scenario.yaml")))
)
'''
)

MORE_SCENARIO = SCENARIO.replace(
    "turns:\n",
    """turns:
  - when: nested question
    steps:
      - say: A nested answer.
  - when: speak
    steps:
      - say: slowly spoken.
  - when: translate
    steps:
      - calls: [{tool: translate, arguments: {text: saws}, as: word}]
      - say: "In German: {{ word.text }}"
""",
)


@pytest.fixture(scope="module")
def crib(tmp_path_factory: pytest.TempPathFactory, built_page: None) -> Generator[Crib]:
    """A server whose tools report progress, wait, and ask the model themselves."""
    folder = tmp_path_factory.mktemp("crib")
    project = PROJECT.replace("crib_model:adapter", "crib_tools:adapter")
    options: Any = {"tools": MORE_TOOLS, "scenario": MORE_SCENARIO, "project": project}
    with crib_in(folder, **options) as started:
        yield started


def transcript(page: Page) -> Locator:
    """The timeline of the session that a page shows."""
    return page.get_by_role("group", name="Transcript", exact=True)


def card(page: Page, tool: str) -> Locator:
    """The last call of a tool."""
    cards = transcript(page).locator("[data-call]")
    return cards.filter(has=page.get_by_text(tool, exact=True)).last


def call(crib: Crib, session_id: str, tool: str, **arguments: Any) -> Any:
    """Call a tool as ada, outside of the page."""
    path = f"/v1/sessions/{session_id}/tools/{tool}/call"
    return crib.request("ada", "POST", path, {"arguments": arguments}).json()


@contextmanager
def meanwhile(crib: Crib, session_id: str, tool: str) -> Generator[None]:
    """A call that runs while the block does."""
    thread = threading.Thread(target=call, args=(crib, session_id, tool))
    thread.start()
    yield
    thread.join()


@pytest.fixture(scope="module")
def shop(crib: Crib) -> str:
    """A session with parallel calls, a nested prompt, a failure, and a call that waits."""
    client = crib.operations("ada")
    client.create_session("ada:shop", metadata={"ticket": "T-7"})
    for text in ("how many are there?", "please translate", "fail"):
        client.send_prompt("ada:shop", text)
    client.send_prompt("ada:shop", "order saws", waits=False)
    return "ada:shop"


def test_sessions_are_found(crib: Crib, shop: str) -> None:
    """By words of title, id or metadata, by tool, by state, by what waits and by what failed; the
    filters stand in the address.
    """
    crib.operations("ada").create_session("ada:empty")
    page = crib.page("ada", "/sessions")
    link = page.get_by_role("link", name="how many are there?")
    row = page.get_by_role("row", name="how many are there?")
    expect(row).to_contain_text("1 waiting")
    expect(row).to_contain_text("4 prompts, 5 calls")
    expect(row).to_contain_text("1 failed")
    expect(page.get_by_role("link", name="Nothing happened yet")).to_be_visible()

    page.get_by_label("Search").fill("MANY t-7")
    expect(page).to_have_url(f"{crib.url}/sessions?text=MANY+t-7")
    expect(page.get_by_text("1 session shown")).to_be_visible()
    page.get_by_label("Search").fill("nothing like this")
    expect(page.get_by_text("No session matches the filters")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").last.click()

    for label, matches in (("Waiting for a decision", 1), ("With failures", 1)):
        page.get_by_label(label).check()
        expect(page.get_by_text(f"{matches} session shown")).to_be_visible()
        expect(link).to_be_visible()
        page.get_by_label(label).uncheck()
    page.get_by_label("Tool").fill("order_*")
    expect(page.get_by_text("1 session shown")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Tool")).to_have_value("order_*")
    page.get_by_label("State").select_option("Closed")
    expect(page.get_by_text("No session matches the filters")).to_be_visible()


def test_a_list_is_live(crib: Crib) -> None:
    """A session that somebody makes appears without a reload."""
    page = crib.page("ada", "/sessions?text=newcomer")
    expect(page.get_by_text("No session matches the filters")).to_be_visible()
    crib.operations("ada").create_session("ada:newcomer")
    expect(page.get_by_text("ada:newcomer")).to_be_visible(timeout=10_000)


def test_a_caller_sees_their_own_sessions(crib: Crib, shop: str) -> None:
    """Neither in the list nor by its address; an auditor reads all and changes nothing."""
    page = crib.page("bob", "/sessions", allow=["404"])
    expect(page.get_by_text("No session yet")).to_be_visible()
    expect(page.get_by_label("Owner")).to_have_count(0)
    page.goto(f"/sessions/{shop}")
    expect(page.get_by_text("There is no such session")).to_be_visible()
    assert crib.request("bob", "GET", f"/v1/sessions/{shop}/events").status_code == 404

    page = crib.page("dora", f"/sessions/{shop}")
    expect(card(page, "order_parts")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    page.get_by_role("button", name="Actions of the session").click()
    expect(page.get_by_role("menuitem", name="Copy the id")).to_be_visible()
    for action in ("Close", "Fork", "Delete"):
        expect(page.get_by_role("menuitem", name=action)).to_have_count(0)
    for path in ("close", "fork"):
        path = f"/v1/sessions/{shop}/{path}"
        assert crib.request("dora", "POST", path, {}).status_code == 403
    assert crib.request("dora", "DELETE", f"/v1/sessions/{shop}").status_code == 403


def test_a_session_reads_as_a_timeline(crib: Crib, shop: str) -> None:
    """Prompts, parallel calls side by side, nested prompts below their call, failures as such."""
    page = crib.page("ada", f"/sessions/{shop}", size=(1440, 2400))
    expect(page.get_by_role("heading", name="how many are there?")).to_be_visible()
    together = page.get_by_role("group", name="2 calls side by side")
    boxes = [each.bounding_box() for each in together.locator("[data-call]").all()]
    first, second = boxes
    assert first is not None
    assert second is not None
    assert first["y"] == second["y"]
    assert first["x"] + first["width"] <= second["x"]

    nested = transcript(page).locator("[data-depth='1']")
    expect(nested.first).to_contain_text("Prompt of the call translate")
    expect(nested.last).to_contain_text("A nested answer.")
    expect(card(page, "broken")).to_contain_text("the till is jammed")

    page.get_by_label("Status").select_option("Failed")
    expect(transcript(page).locator("[data-call]")).to_have_count(1)
    page.get_by_label("Status").select_option("Any status")
    page.get_by_label("Find in the transcript").fill("jammed")
    expect(page.get_by_text("1 of 1")).to_be_visible()


def test_a_decision_is_taken_in_the_transcript(crib: Crib) -> None:
    """By who may decide; then it says who decided, and what came of it."""
    client = crib.operations("bob")
    session_id = client.create_session().session_id
    client.send_prompt(session_id, "order saws", waits=False)
    page = crib.page("ada", f"/sessions/{session_id}")
    waiting = card(page, "order_parts")
    expect(waiting).to_contain_text("waits for a decision")
    waiting.get_by_role("button", name="Approve").first.click()
    expect(waiting).to_contain_text("ada has approved order_parts. The call goes on when")
    client.resume_prompt(session_id)
    expect(waiting).to_contain_text("Approved by ada")
    expect(waiting).to_contain_text("completed")
    expect(transcript(page)).to_contain_text("more of saws are ordered")


@pytest.mark.parametrize("place", ["sessions", "chat"])
def test_nothing_is_approved_in_line_that_is_not_shown(crib: Crib, place: str) -> None:
    """A transcript cuts a long argument; with the button to approve it, its end is there too."""
    client = crib.operations("bob")
    session_id = client.create_session().session_id
    content = "\n".join([*(f"harmless {number}" for number in range(60)), "and the harm"])
    client.call_tool(session_id, "write_file", {"path": "a.txt", "content": content})
    page = crib.page("ada", f"/{place}/{session_id}")
    expect(page.get_by_role("button", name="Approve").first).to_be_visible()

    expect(page.get_by_role("main")).to_contain_text("and the harm")


def test_progress_comes_in_place_and_a_call_is_cancelled(crib: Crib) -> None:
    """One card, whose progress and output change; its cancel button stops the call."""
    crib.operations("ada").create_session("ada:slow")
    page = crib.page("ada", "/sessions/ada:slow")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    with meanwhile(crib, "ada:slow", "count_slowly"):
        running = card(page, "count_slowly")
        expect(running).to_contain_text("one of three")
        expect(running).to_contain_text("first shelf")
        call(crib, "ada:slow", "open_gate")
        expect(running).to_contain_text("completed")
    expect(transcript(page).locator("[data-call]")).to_have_count(2)
    with meanwhile(crib, "ada:slow", "slow"):
        card(page, "slow").get_by_role("button", name="Cancel the call").click()
        expect(card(page, "slow")).to_contain_text("failed")


def test_the_text_of_a_model_is_shown_while_it_is_written(crib: Crib) -> None:
    """Before its reply is recorded; the recorded text takes its place."""
    crib.operations("ada").create_session("ada:live")
    page = crib.page("ada", "/sessions/ada:live")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    prompt = {"text": "speak"}
    path = "/v1/sessions/ada:live/prompt"
    thread = threading.Thread(target=crib.request, args=("ada", "POST", path, prompt))
    thread.start()
    expect(transcript(page).locator("[data-live]")).to_have_text("Half of")
    expect(transcript(page)).to_contain_text("Writing")
    (crib.folder / "gate").touch()
    expect(transcript(page)).to_contain_text("Half of slowly spoken.")
    expect(transcript(page).locator("[data-live]")).to_have_count(0)
    thread.join()


def test_an_event_has_a_link_and_the_arrow_keys_move(crib: Crib, shop: str) -> None:
    """The address names the event; the details follow the keys, and Escape closes them."""
    page = crib.page("ada", f"/sessions/{shop}")
    card(page, "order_parts").get_by_role("button", name="Show the details").click()
    expect(page).to_have_url(re.compile("shop.event=37$"))
    pane = page.get_by_role("group", name="Details of the event")
    expect(pane).to_contain_text("#37")
    page.keyboard.press("ArrowUp")
    expect(pane).to_contain_text("#36")
    page.keyboard.press("Escape")
    expect(pane).to_have_count(0)

    page.goto(f"/sessions/{shop}?event=13")
    expect(pane).to_contain_text("#13")
    expect(transcript(page).locator("[data-selected='true']")).to_be_in_viewport()


def test_a_lost_connection_leaves_no_gap(crib: Crib) -> None:
    """Events that happen while the page is offline appear once when it is back."""
    crib.operations("ada").create_session("ada:offline")
    page = crib.page("ada", "/sessions/ada:offline", allow=["ERR_INTERNET_DISCONNECTED", "Failed"])
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    call(crib, "ada:offline", "stock_level", part="saws")
    expect(transcript(page).locator("[data-call]")).to_have_count(1)
    page.context.set_offline(True)
    for _ in range(3):
        call(crib, "ada:offline", "stock_level", part="bolts")
    page.context.set_offline(False)
    expect(transcript(page).locator("[data-call]")).to_have_count(4, timeout=15_000)
    call(crib, "ada:offline", "stock_level", part="nuts")
    expect(transcript(page).locator("[data-call]")).to_have_count(5)


def test_a_restarted_server_leaves_no_gap(crib: Crib) -> None:
    """An open page says that the connection is lost, and shows each event once afterwards."""
    client = crib.operations("ada")
    client.create_session("ada:restart")
    lost = ["ERR_", "Failed to load", "404", "502", "503"]
    page = crib.page("ada", "/sessions/ada:restart", allow=lost)
    call(crib, "ada:restart", "stock_level", part="saws")
    expect(transcript(page).locator("[data-call]")).to_have_count(1)
    crib.kill()
    expect(page.get_by_text("Connection lost, trying again")).to_be_visible()
    crib.start()
    page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(page.get_by_text("Not open on this server")).to_be_visible(timeout=20_000)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Live", exact=True)).to_be_visible(timeout=15_000)
    call(crib, "ada:restart", "stock_level", part="nuts")
    expect(transcript(page).locator("[data-call]")).to_have_count(2)


def test_sessions_are_forked_closed_and_deleted(crib: Crib, shop: str) -> None:
    """From the menu of the session, by an admin."""
    page = crib.page("ada", f"/sessions/{shop}", allow=["404"])
    menu = page.get_by_role("button", name="Actions of the session")
    menu.click()
    page.get_by_role("menuitem", name="Fork").click()
    expect(page.get_by_text("The fork is open").first).to_be_visible()
    expect(page).not_to_have_url(re.compile("shop$"))
    expect(transcript(page)).to_contain_text("It did not work.")
    menu.click()
    page.get_by_role("menuitem", name="Close").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    menu.click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("The session is deleted").first).to_be_visible()
    expect(page).to_have_url(f"{crib.url}/sessions")


@pytest.mark.parametrize(("size", "theme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_axe_finds_nothing(crib: Crib, shop: str, size: tuple[int, int], theme: Any) -> None:
    """On the list, on a session, and with the details of an event."""
    page = crib.page("ada", "/sessions", size=size, theme=theme)
    expect(page.get_by_role("link", name="how many are there?").first).to_be_visible()
    check_axe(page)
    page.goto(f"/sessions/{shop}?event=13")
    expect(page.get_by_role("group", name="Details of the event")).to_contain_text("#13")
    check_axe(page)


LONG = 20_000
LONG_TASKS = """() => {
  window.longTasks = [];
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) window.longTasks.push(Math.round(entry.duration));
  }).observe({type: "longtask"});
}"""


SLOWNESS = """() => {
  const times = [];
  for (let run = 0; run < 60; run += 1) {
    const begin = performance.now();
    for (let sum = 0, index = 0; index < 1e6; index += 1) sum += Math.sqrt(index);
    times.push(performance.now() - begin);
  }
  return Math.max(...times) / Math.min(...times);
}"""
"""How much longer the same work takes at worst than at best, because other work runs beside it."""


async def write_long(path: Path) -> None:
    """A session of many calls, in the store of a server that runs."""
    with SqliteStore(path) as store:
        async with await Session.open(store, "ada:long", owner="ada") as session:
            ref = ToolRef("order_parts", "host", "1", "d" * 64, "local")
            for number in range(LONG // 2):
                about: Any = {"session_id": "ada:long", "at": 1_790_000_000.0 + number}
                call_id = f"call_{number}"
                start = CallStarted(**about, call_id=call_id, tool=ref, arguments_digest="")
                session.append_soon(entry_of(start))
                end = ToolInvoked(
                    **about,
                    call_id=call_id,
                    name="order_parts",
                    tool=ref,
                    params={"part": "saws", "count": number},
                    message=f"{number} more of saws are ordered, in words of some length.",
                    success=number % 50 != 0,
                )
                session.append_soon(entry_of(end))
            await session.ledger.flush()


def test_a_long_transcript_scrolls_smoothly(
    crib: Crib, record_property: Callable[[str, object], None]
) -> None:
    """20,000 events: the newest are there at once, older ones come before them while one scrolls,
    the place is kept, and no task of the page takes long.
    """
    # The browser has a loop in this thread.
    work = write_long(crib.folder / "crib.sqlite3")
    writer = threading.Thread(target=asyncio.run, args=(work,))
    writer.start()
    writer.join()
    page = crib.page("ada", "/sessions?text=long")
    page.evaluate(LONG_TASKS)
    page.get_by_role("link", name="order_parts").click()
    last = transcript(page).locator(f"[data-call='call_{LONG // 2 - 1}']")
    expect(last).to_be_in_viewport()

    rows = transcript(page).locator("ol")
    height = rows.bounding_box()
    transcript(page).hover()
    for _ in range(40):
        page.mouse.wheel(0, -3000)
        page.wait_for_function("() => new Promise(done => requestAnimationFrame(() => done(true)))")
    assert height is not None
    taller = rows.bounding_box()
    assert taller is not None
    assert taller["height"] > height["height"]
    shown = transcript(page).locator("[data-call]").first
    name = shown.get_attribute("data-call")
    expect(transcript(page).get_by_text("Loading older events")).to_have_count(0)
    expect(transcript(page).locator(f"[data-call='{name}']")).to_be_attached()

    scrolled: list[int] = page.evaluate("() => window.longTasks")

    page.goto("/sessions/ada:long?event=30")
    page.evaluate(LONG_TASKS)
    expect(page.get_by_role("group", name="Details of the event")).to_contain_text(
        "#30", timeout=30_000
    )
    tasks: list[int] = scrolled + page.evaluate("() => window.longTasks")
    slowness: float = page.evaluate(SLOWNESS)
    record_property("long_tasks_ms", tasks)
    record_property("slowness", slowness)
    assert max(tasks, default=0) < 100 * max(slowness, 1), (tasks, slowness)
