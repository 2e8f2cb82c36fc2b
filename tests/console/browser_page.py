"""Debian's Chromium, and pages in it that are watched: what a page must never do fails the test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Request

    from tests.console.crib import Crib, Person

ROOT: Final = Path(__file__).parents[2]
AXE: Final = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM: Final = os.environ.get("TOOLCRIB_CHROMIUM", "chromium")
DESKTOP: Final = (1440, 900)
PHONE: Final = (390, 844)
Theme = Literal["light", "dark"]

_FLAGS: Final = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-features=OptimizationHints,MediaRouter,Translate,AutofillServerCommunication",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--force-color-profile=srgb",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-pings",
    # Nothing outside of this machine is looked up, whatever a page tries.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser, without a window. Fails with what to do when there is none."""
    path = shutil.which(CHROMIUM)
    if path is None:
        pytest.fail(
            "there is no chromium; on Debian: sudo apt-get install chromium (make browser does "
            "it for root), or name one with TOOLCRIB_CHROMIUM"
        )
    # Its sandbox refuses to run as root.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*_FLAGS, *sandbox])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class WatchedPage:
    """A page, and what it did that a page must not do."""

    page: Page
    origin: str
    allowed: Sequence[str] = ()
    """Patterns of messages that this test expects, such as that of a refusal."""
    faults: list[str] = field(default_factory=list[str])

    def watch(self) -> None:
        """Begin to watch."""
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self._note(f"uncaught: {error}"))
        self.page.on("request", self._on_request)
        self.page.on("crash", lambda _: self._note("the page crashed"))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._note(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.origin}/", "data:", "blob:", "about:")):
            self._note(f"a request to another origin: {request.url}")

    def _note(self, fault: str) -> None:
        if not any(re.search(pattern, fault) for pattern in self.allowed):
            self.faults.append(fault)


class BrowserPages:
    """Signed-in pages of one test. Each person has a browser profile of their own."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._watched: list[WatchedPage] = []
        self._contexts: list[BrowserContext] = []

    def open(
        self,
        crib: Crib,
        person: Person | None,
        path: str = "/",
        *,
        size: tuple[int, int] = DESKTOP,
        theme: Theme = "light",
        allow: Sequence[str] = (),
    ) -> Page:
        """A new profile, signed in as a person, at a path of the console; None signs nobody in."""
        context = self._browser.new_context(
            base_url=crib.url,
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
        )
        self._contexts.append(context)
        if person is not None:
            sign_in(context, crib, person)
        return self.another(context, crib, path, allow=allow)

    def another(
        self, context: BrowserContext, crib: Crib, path: str = "/", *, allow: Sequence[str] = ()
    ) -> Page:
        """One more page in the profile of another one: `page.context`."""
        page = context.new_page()
        watched = WatchedPage(page, crib.url, allow)
        watched.watch()
        self._watched.append(watched)
        page.goto(path)
        return page

    def close(self) -> None:
        """Close all, and fail if one of them did what a page must not do."""
        faults = [fault for watched in self._watched for fault in watched.faults]
        for context in self._contexts:
            context.close()
        assert not faults, "\n".join(faults)


def sign_in(context: BrowserContext, crib: Crib, person: Person) -> None:
    """Sign a browser profile in with a person's token, as the sign-in page does."""
    answer = context.request.post(
        f"{crib.url}/v1/sign-in",
        data={"token": crib.token(person)},
        headers={"Origin": crib.url, "Sec-Fetch-Site": "same-origin"},
    )
    assert answer.ok, answer.text()


def settle(page: Page) -> None:
    """Wait until a page of the console shows what it is about."""
    expect(page.get_by_role("main").get_by_role("heading", level=1).first).to_be_visible()
    expect(page.get_by_text("Loading", exact=True)).to_have_count(0)


def calm(page: Page) -> None:
    """Wait until nothing more has been fetched for a while: charts, colours of code, pictures."""
    page.wait_for_function(
        """() => {
            const count = performance.getEntriesByType("resource").length;
            window.calm = window.seen === count ? (window.calm ?? 0) + 1 : 0;
            window.seen = count;
            return window.calm >= 4;
        }""",
        polling=200,
    )


def check_axe(page: Page) -> None:
    """Fail if axe finds anything on the page as it is shown now."""
    page.evaluate(AXE.read_text("utf-8"))
    found: Any = page.evaluate(
        """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
        .map(({id, help, nodes}) => ({id, help, nodes: nodes.map(node => node.html).slice(0, 5)}))
        """
    )
    violations = cast("list[dict[str, Any]]", found)
    assert not violations, "\n".join(
        f"{each['id']}: {each['help']}\n  " + "\n  ".join(each["nodes"]) for each in violations
    )
