"""The built page of the console: who gets it, with which headers, and that no path leads out."""

from __future__ import annotations

import gzip
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.transports.http.served_runtime import served
from toolcrib.transports.http import console
from toolcrib.transports.http.console import PAGE_PATHS, ConsolePage

INDEX = '<!doctype html><meta name="csp-nonce" content="__NONCE__"><script src="/assets/a-1.js">'
SCRIPT = b"console.log('the page')" * 100
NO_TOKEN = {"Authorization": ""}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built page with one script, and a secret beside its folder."""
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX, "utf-8")
    (folder / "icon.svg").write_text("<svg/>", "utf-8")
    (folder / "notes.secret").write_text("not for browsers", "utf-8")
    (folder / "assets" / "a-1.js").write_bytes(SCRIPT)
    (folder / "assets" / "a-1.js.gz").write_bytes(gzip.compress(SCRIPT))
    (folder / "assets" / "a-1.js.br").write_bytes(b"as brotli")
    (tmp_path / "secret.js").write_text("secret", "utf-8")
    monkeypatch.setattr(console, "page_folder", lambda: folder)
    return folder


@dataclass
class RawAnswer:
    """An answer to a request whose path no client has tidied up."""

    status: int
    headers: dict[str, str]
    body: bytes


async def ask(page: ConsolePage, path: str, **headers: str) -> RawAnswer:
    """The page's answer to exactly this path."""
    answers: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("a page reads no body")

    async def send(message: Any) -> None:
        answers.append(message)

    raw = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    scope = {"type": "http", "method": "GET", "path": path, "toolcrib.headers": raw}
    await page(scope, receive, send)
    start, body = answers
    return RawAnswer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        body["body"],
    )


async def test_every_page_path_gives_the_page_without_a_token(built: Path) -> None:
    """A link to any place of the console opens it; the page itself says nothing of the server."""
    async with served() as crib:
        for path in ("/", *PAGE_PATHS, "/sessions/s-1/events/7", "/tools/mcp:files.read"):
            answer = await crib.client.get(path, headers=NO_TOKEN)

            assert answer.status_code == 200, path
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert "/assets/a-1.js" in answer.text


async def test_other_paths_are_not_the_pages(built: Path) -> None:
    """The API keeps its answers, and nothing is written at a page path."""
    async with served() as crib:
        api = await crib.client.get("/v1/sessions", headers=NO_TOKEN)
        unknown = await crib.client.get("/inboxes", headers=NO_TOKEN)
        posted = await crib.client.post("/inbox", headers=NO_TOKEN, json={})

    assert [each.status_code for each in (api, unknown, posted)] == [401, 401, 401]


async def test_a_page_of_another_name_does_not_get_the_console(built: Path) -> None:
    """A name that was rebound to this machine, and a foreign page, are refused here too."""
    async with served() as crib:
        rebound = await crib.client.get("/", headers={**NO_TOKEN, "Host": "evil.example"})
        foreign = await crib.client.get("/", headers={**NO_TOKEN, "Origin": "https://evil.example"})

    assert (rebound.status_code, foreign.status_code) == (403, 403)


async def test_each_response_has_a_nonce_of_its_own(built: Path) -> None:
    """The policy names the nonce that the page has, and nobody can guess the next one."""
    page = ConsolePage()
    answers = [await ask(page, "/inbox") for _ in range(2)]
    nonces: set[str] = set()
    for answer in answers:
        [nonce] = re.findall(r'content="([^"]+)"', answer.body.decode())
        assert f"style-src 'self' 'nonce-{nonce}'" in answer.headers["content-security-policy"]
        nonces.add(nonce)

    assert len(nonces) == 2
    assert "__NONCE__" not in answers[0].body.decode()


async def test_the_policy_allows_no_inline_script_and_no_other_origin(built: Path) -> None:
    """Whatever a tool has written into the page: nothing runs, nothing is fetched from elsewhere,
    and no other site frames it.
    """
    answer = await ask(ConsolePage(), "/")
    policy = {
        name: values
        for name, *values in (part.split() for part in answer.headers.pop(
            "content-security-policy").split(";"))
    }  # fmt: skip

    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["connect-src"] == ["'self'"]
    assert policy["img-src"] == ["'self'", "data:", "blob:"]
    assert policy["frame-ancestors"] == policy["base-uri"] == ["'none'"]
    assert "unsafe" not in str(policy)
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "camera=()" in answer.headers["permissions-policy"]


async def test_a_page_that_has_not_changed_is_not_sent_again(built: Path) -> None:
    """The browser keeps the page with the nonce and the policy it came with: a 304 has no other."""
    page = ConsolePage()
    first = await ask(page, "/")
    again = await ask(page, "/", if_none_match=first.headers["etag"])
    (built / "index.html").write_text(INDEX + "<p>new", "utf-8")
    os.utime(built / "index.html", ns=(1, 1))
    changed = await ask(page, "/", if_none_match=first.headers["etag"])

    assert (again.status, again.body) == (304, b"")
    assert "content-security-policy" not in again.headers
    assert first.headers["cache-control"] == "no-cache"
    assert changed.status == 200
    assert b"<p>new" in changed.body


@pytest.mark.parametrize(
    ("accepts", "encoding", "body"),
    [
        ("gzip, deflate, br, zstd", "br", b"as brotli"),
        ("gzip, deflate", "gzip", None),
        ("br;q=0, gzip;q=0.5", "gzip", None),
        ("", None, SCRIPT),
    ],
)
async def test_a_file_is_sent_as_it_was_compressed(
    built: Path, accepts: str, encoding: str | None, body: bytes | None
) -> None:
    """Nothing is compressed for a request, and who takes no compression gets the file."""
    answer = await ask(ConsolePage(), "/assets/a-1.js", accept_encoding=accepts)

    assert answer.headers.get("content-encoding") == encoding
    assert (gzip.decompress(answer.body) if body is None else answer.body) == (body or SCRIPT)
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["vary"] == "accept-encoding"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../../secret.js",
        "/assets//../secret.js",
        "/assets/..\\..\\secret.js",
        "/assets/%2e%2e/%2e%2e/secret.js",
        "/assets/a-1.js.gz",
        "/assets/",
        "/assets/b.js",
        "/assets//etc/passwd",
    ],
)
async def test_no_path_leads_to_a_file_that_is_not_the_pages(built: Path, path: str) -> None:
    """Only files of the folder's own listing are read."""
    answer = await ask(ConsolePage(), path)

    assert answer.status == 404
    assert b"secret" not in answer.body


async def test_a_page_path_with_dots_gives_the_page_and_no_file(built: Path) -> None:
    """Below a page path everything is the page's to show; no file is looked for."""
    answer = await ask(ConsolePage(), "/sessions/../../secret.js")

    assert (answer.status, b"secret" in answer.body) == (200, False)


async def test_files_beside_the_page_are_served_by_name(built: Path) -> None:
    """The icon is there; a file of a kind that no page has is not."""
    page = ConsolePage()

    assert page.covers("/icon.svg")
    assert (await ask(page, "/icon.svg")).headers["content-type"] == "image/svg+xml"
    assert not page.covers("/notes.secret")
    assert not page.covers("/icons.svg")


async def test_without_a_built_page_the_root_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newcomer who opens the address learns what to do, and the API is there all the same."""
    monkeypatch.setattr(console, "page_folder", lambda: tmp_path / "dist")
    async with served() as crib:
        front = await crib.client.get("/", headers=NO_TOKEN)
        inbox = await crib.client.get("/inbox", headers=NO_TOKEN)
        api = await crib.client.get("/v1/sessions")

    assert (front.status_code, inbox.status_code, api.status_code) == (200, 404, 200)
    assert front.headers["content-type"] == "text/plain; charset=utf-8"
    assert "make console" in front.text
    assert "/openapi.json" in front.text


async def test_a_page_that_is_built_while_the_server_runs_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody restarts a server to see the console."""
    monkeypatch.setattr(console, "page_folder", lambda: tmp_path)
    page = ConsolePage()
    before = await ask(page, "/")
    (tmp_path / "index.html").write_text(INDEX, "utf-8")
    after = await ask(page, "/")

    assert b"make console" in before.body
    assert b"/assets/a-1.js" in after.body


async def test_a_server_without_the_console_has_no_page(built: Path) -> None:
    """`--no-console`: the root says where the API is described, and there is no other page."""
    async with served(console=False) as crib:
        front = await crib.client.get("/", headers=NO_TOKEN)
        inbox = await crib.client.get("/inbox", headers=NO_TOKEN)
        asset = await crib.client.get("/assets/a-1.js", headers=NO_TOKEN)

    assert "/openapi.json" in front.text
    assert front.headers["x-frame-options"] == "DENY"
    assert (inbox.status_code, asset.status_code) == (401, 401)


async def test_nothing_is_read_before_a_browser_asks(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that only serves calls never looks for the page."""

    def fail() -> Path:
        raise AssertionError("the page was looked for")

    monkeypatch.setattr(console, "page_folder", fail)
    async with served() as crib:
        answer: httpx2.Response = await crib.client.get("/v1/sessions")

    assert answer.status_code == 200
