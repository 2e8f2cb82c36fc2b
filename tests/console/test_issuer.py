"""Signing in to the console at an OpenID issuer, a real one."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Generator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.helpers.patience import PATIENCE
from tests.node.identity import Key, identity_server
from tests.transports.http.test_issuer_visit import register

if TYPE_CHECKING:
    from tests.console.crib import Crib


class BackgroundLoop:
    """An event loop in a thread: the browser's driver has one of its own in this one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


@pytest.fixture(scope="module")
def issuer(crib: Crib) -> Generator[str]:
    """An issuer that the server is a client of; everybody is `ada` there, one of the engineers."""
    loop, stack = BackgroundLoop(), AsyncExitStack()
    identity = loop.run(stack.enter_async_context(identity_server()))
    loop.run(identity.set_up([Key("k1")], []))
    callback = f"{crib.url}/v1/sign-in/callback"
    client = loop.run(register(identity, callback, is_public=True))
    crib.options = (
        *("--oidc-issuer", identity.issuer, "--oidc-client-id", client["client_id"]),
        *("--oidc-sign-in-scope", "groups", "--oidc-role", "engineers=caller"),
    )
    crib.restart()
    yield identity.issuer
    loop.run(stack.aclose())
    loop.close()


def allowed(issuer: str) -> tuple[str, ...]:
    """The browser goes to the issuer and comes back."""
    return (re.escape(issuer), "status of 401")


def test_a_person_signs_in_at_the_issuer_and_arrives(crib: Crib, issuer: str) -> None:
    """From a page that needs a sign-in, to the issuer, and back to that page, signed in."""
    page = crib.page(None, "/tools", allow=allowed(issuer))
    page.get_by_role("link", name=re.compile("Sign in with 127.0.0.1-")).click()

    expect(page.get_by_role("button", name=re.compile("Who is signed in: .*:ada"))).to_be_visible()
    assert page.url == f"{crib.url}/tools"
    assert "code=" not in crib.log()


def test_an_open_page_goes_on_after_a_sign_in_in_another_tab(crib: Crib, issuer: str) -> None:
    """The page says that its sign-in has ended; another tab signs in; it goes on by itself."""
    page = crib.page(None, "/tools", allow=allowed(issuer))
    page.get_by_role("link", name=re.compile("Sign in with")).click()
    expect(page.get_by_role("button", name=re.compile("Who is signed in"))).to_be_visible()
    page.context.clear_cookies()
    page.get_by_role("link", name="Activity").click()
    again = page.get_by_role("dialog", name="Your sign-in has ended")
    expect(again).to_be_visible()
    with page.context.expect_page():
        again.get_by_role("link", name=re.compile("Sign in with")).click()

    expect(again).to_be_hidden()
    assert page.url.startswith(f"{crib.url}/activity")
