"""From a command to the console: the links that `dev` and `demo --open` print sign in once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.cli.command import environment, invoke
from tests.helpers.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in#code=\S+")


@contextmanager
def command(folder: Path, *arguments: str, **env: str) -> Generator[str]:
    """A command that serves, and the link that it prints; it ends with Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcrib", *arguments],
        cwd=folder,
        env=environment(XDG_STATE_HOME=str(folder / "state"), **env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        yield next(match[0] for line in process.stderr if (match := LINK.search(line)))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_the_link_of_dev_signs_in_once(browser: Browser, tmp_path: Path) -> None:
    """Who has the terminal is signed in; who finds the link later is not."""
    assert invoke("init", tmp_path / "project").exit_code == 0
    with command(tmp_path / "project", "dev", "--port", "0") as link:
        first, second = browser.new_context(), browser.new_context()
        page = first.new_page()
        page.goto(link)
        expect(page.get_by_role("navigation").first).to_be_visible()
        assert "code" not in page.url
        [cookie] = first.cookies()
        assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")

        late = second.new_page()
        late.goto(link)
        expect(late.get_by_text("used already")).to_be_visible()
        assert second.cookies() == []
        first.close()
        second.close()


def test_demo_open_shows_the_demos_own_ledger(browser: Browser, tmp_path: Path) -> None:
    """The demo is played, and the browser opens on the session that it has just written."""
    opened = tmp_path / "opened"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {opened}\n', "utf-8")
    program.chmod(0o755)
    arguments = ("demo", "--folder", "demo", "--open")
    with command(tmp_path, *arguments, BROWSER=f"{program} %s", OPENAI_API_KEY="") as link:
        page = browser.new_page()
        page.goto(link)
        expect(page.get_by_role("navigation").first).to_be_visible()
        page.goto(link.partition("/sign-in")[0] + "/sessions/demo")
        expect(page.get_by_role("button", name="place_order").first).to_be_visible()
        page.close()
        assert os.path.getsize(tmp_path / "demo" / "kenya.png") > 0
