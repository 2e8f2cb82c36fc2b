"""`toolcrib console`: a link that signs in to the console of a server; and what other commands
need to show it: the page built, and a browser.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from toolcrib.cli.output import fail, require_extra, show, show_note
from toolcrib.cli.project_options import current_project
from toolcrib.cli.service import TokenFile, Url, chosen_token_file, chosen_url
from toolcrib.errors import UsageError
from toolcrib.project.settings import DEFAULT_PORT

Open = Annotated[bool, typer.Option("--open", help="Open the console in the browser.")]

_LINK_PATH: Final = "/v1/sign-in-links"
_TIMEOUT_SECONDS: Final = 30.0


def console(url: Url = None, token_file: TokenFile = None, open: Open = False) -> None:
    """Print a link that signs you in to the console of a running server, once.

    Without --url it is the server on this machine, at the project's port.

    Example: toolcrib console --open

    Example: toolcrib console --url https://crib.example.com --token-file ann.token
    """
    require_extra("client", "console")
    address = chosen_url(url) or _own_address()
    try:
        link = _link_of(address, chosen_token_file(address, token_file))
    except UsageError as error:
        fail(str(error))
    show(link)
    show_note("the link signs in once, within ten minutes")
    if open:
        open_browser(link)


def _own_address() -> str:
    project = current_project()
    port = None if project is None else project.serve.port
    return f"http://127.0.0.1:{port or DEFAULT_PORT}"


def _link_of(address: str, token_file: Path | None) -> str:
    """Have the server make a link. Raises `UsageError`."""
    import httpx2

    from toolcrib.client.address import server_location

    server = server_location(address, None, token_file)
    headers = {"Authorization": f"Bearer {server.token}"}
    try:
        answer = httpx2.post(
            f"{server.url}{_LINK_PATH}",
            headers=headers,
            json={},
            timeout=_TIMEOUT_SECONDS,
            verify=server.tls(),
        )
        body = answer.json()
    except httpx2.TransportError as error:
        raise UsageError(
            f"no server answers at {server.url} ({error}); start one with `toolcrib dev`, or name "
            "it with --url"
        ) from None
    except ValueError:
        raise UsageError(
            f"{server.url} is not a Toolcrib server, or one without a console"
        ) from None
    if not answer.is_success:
        raise UsageError(f"{server.url}: {body.get('error', {}).get('message', 'refused')}")
    return str(body["url"])


def open_browser(link: str) -> None:
    """Open a page in the browser of this desktop, if there is one."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        browser = None
    # A browser that runs in this terminal cannot show the page, and would take the terminal.
    is_in_terminal = type(browser) is webbrowser.GenericBrowser and not os.environ.get("BROWSER")
    if browser is None or is_in_terminal or not browser.open(link):
        show_note("there is no browser to open; open the link yourself", "yellow")


class PageBuild:
    """Builds the page of a checkout while something else goes on, and then calls `on_end` with
    whether there is a page. An installed package has the page, or has none to build.
    """

    def __init__(self, on_end: Callable[[bool], None]) -> None:
        self._on_end = on_end
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to build, if the page is missing or older than its sources."""
        from toolcrib.transports.http.console import checkout_folder

        checkout = checkout_folder()
        if checkout is None:
            self._end()
            return
        # In a session of its own: Ctrl-C is for the server, which ends the build itself.
        self._process = subprocess.Popen(
            [sys.executable, str(checkout / "scripts" / "console.py"), "--if-needed"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        atexit.register(self._stop)
        threading.Thread(target=self._follow, args=(self._process,), daemon=True).start()

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        lines: list[str] = []
        with process.stderr as output:
            for line in output:
                lines.append(line.decode(errors="replace").rstrip())
                if len(lines) == 1:
                    show_note("building the console; it takes about a minute the first time")
        if process.wait() > 0:
            show_note("\n".join(line for line in lines[-20:] if line), "yellow")
        if process.returncode >= 0:
            self._end()

    def _end(self) -> None:
        from toolcrib.transports.http.console import page_folder

        self._on_end((page_folder() / "index.html").is_file())

    def _stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
