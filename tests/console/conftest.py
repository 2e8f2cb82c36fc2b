"""The browser, a real server with the console, and pages that are signed in to it.

`crib` is one server for all tests of a file; `crib.page("carol", "/inbox")` is a page of it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.console.browser_page import ROOT, BrowserPages, chromium
from tests.console.crib import Crib, crib_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# A wait ends when its condition holds; only a hang reaches this, however busy the machine is.
expect.set_options(timeout=30_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs the browser."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def built_page() -> None:
    """The page as its sources are now."""
    subprocess.run([sys.executable, ROOT / "scripts" / "console.py", "--if-needed"], check=True)


@pytest.fixture(scope="session")
def browser(built_page: None) -> Generator[Browser]:
    """Debian's Chromium, one for all tests."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def crib(tmp_path_factory: pytest.TempPathFactory, built_page: None) -> Generator[Crib]:
    """A server with tools, a policy, a scripted agent and people of every role."""
    with crib_in(tmp_path_factory.mktemp("crib")) as started:
        yield started


@pytest.fixture(autouse=True)
def pages(browser: Browser, request: pytest.FixtureRequest) -> Generator[BrowserPages]:
    """Pages of any server; those that did what a page must not do fail the test."""
    opened = BrowserPages(browser)
    if "crib" in request.fixturenames:
        request.getfixturevalue("crib").pages = opened
    yield opened
    opened.close()
