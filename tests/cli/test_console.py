"""`toolcrib console`, the page that `dev` builds, and the browser that is opened."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from tests.cli.command import invoke
from tests.cli.test_remote import TOKEN, stub
from tests.helpers.patience import PATIENCE
from toolcrib.cli.console import PageBuild, open_browser
from toolcrib.transports.http import console as served_console

pytestmark = pytest.mark.usefixtures("folder")

LINK = "http://127.0.0.1:8420/sign-in#code=sc_once"


def test_it_prints_the_link_that_the_server_makes(folder: Path) -> None:
    """The person's own token asks for it, and the data is on stdout alone."""
    with stub(201, {"url": LINK, "expires_at": 1.0}) as server:
        done = invoke("console", "--url", server.url, env={"TOOLCRIB_TOKEN": TOKEN})

    assert (done.exit_code, done.stdout) == (0, f"{LINK}\n")
    assert "once, within ten minutes" in done.stderr
    [(method, path, authorization, _)] = server.seen
    assert (method, path, authorization) == ("POST", "/v1/sign-in-links", f"Bearer {TOKEN}")


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (401, {"error": {"kind": "unauthorized", "message": "no such token"}}, "no such token"),
        (200, b"<html>a router</html>", "is not a Toolcrib server"),
    ],
)
def test_a_refusal_is_one_sentence(status: int, body: object, text: str) -> None:
    """The server's reason is told; another program at the address is told apart."""
    with stub(status, body) as server:
        done = invoke("console", "--url", server.url, env={"TOOLCRIB_TOKEN": TOKEN})

    assert done.exit_code == 1
    assert text in done.stderr
    assert TOKEN not in done.stderr


def test_without_a_server_it_says_how_to_start_one() -> None:
    """Nothing listens there."""
    with stub() as server:
        address = server.url
    done = invoke("console", "--url", address, env={"TOOLCRIB_TOKEN": TOKEN})

    assert done.exit_code == 1
    assert "start one with `toolcrib dev`" in done.stderr


def test_open_hands_the_link_to_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser of BROWSER gets exactly the link."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {tmp_path}/opened\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{program} %s")
    monkeypatch.setattr("webbrowser._tryorder", None)
    monkeypatch.setattr("webbrowser._browsers", {})

    open_browser(LINK)

    assert (tmp_path / "opened").read_text("utf-8") == LINK


def test_without_a_browser_the_link_is_the_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a server without a desktop nothing breaks, and no browser takes the terminal."""
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.setattr("webbrowser._tryorder", [])
    monkeypatch.setattr("webbrowser._browsers", {})

    open_browser(LINK)

    assert "open the link yourself" in capsys.readouterr().err


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose build is a program of the test."""
    (tmp_path / "scripts").mkdir()
    monkeypatch.setattr(served_console, "checkout_folder", lambda: tmp_path)
    monkeypatch.setattr(served_console, "page_folder", lambda: tmp_path / "dist")
    return tmp_path


def built(checkout: Path, program: str) -> bool:
    """Whether there is a page when the build has ended."""
    (checkout / "scripts" / "console.py").write_text(f"import sys\n{program}\n", "utf-8")
    ends: list[bool] = []
    is_over = threading.Event()

    def on_end(is_built: bool) -> None:
        ends.append(is_built)
        is_over.set()

    PageBuild(on_end).start()
    assert is_over.wait(PATIENCE)
    [end] = ends
    return end


def test_a_checkout_builds_the_page_when_it_has_to(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The person learns why they wait, and the server goes on meanwhile."""
    program = (
        "from pathlib import Path\n"
        "assert sys.argv[1:] == ['--if-needed']\n"
        "print('building the console', file=sys.stderr)\n"
        "page = Path(__file__).parents[1] / 'dist'\n"
        "page.mkdir()\n"
        "(page / 'index.html').touch()"
    )

    assert built(checkout, program)
    assert "building the console; it takes about a minute" in capsys.readouterr().err


def test_a_build_that_fails_says_why_and_the_server_stays(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without network and Node there is no console, and nothing else is lost."""
    assert not built(checkout, "sys.exit('it needs the network once')")
    assert "it needs the network once" in capsys.readouterr().err


def test_an_installed_package_builds_nothing(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the page, or has none; no program is started."""
    monkeypatch.setattr(served_console, "checkout_folder", lambda: None)
    monkeypatch.setattr(sys, "executable", "/bin/false")

    assert not built(checkout, "raise AssertionError")
