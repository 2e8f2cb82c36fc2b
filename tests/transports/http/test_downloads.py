"""Exports and artifacts as files that a browser saves and never shows."""

from __future__ import annotations

import base64
import json

import httpx2
import pytest

from tests.transports.http.served_runtime import CALLERS, OWNERS, READERS, Served, served
from toolcrib.transports.http import downloads

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 300
PAGE = b"<html><script>alert(1)</script></html>" * 2_000
SAFE = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}


def check_safe(answer: httpx2.Response) -> None:
    for name, value in SAFE.items():
        assert answer.headers[name] == value
    assert answer.headers["content-disposition"].startswith('attachment; filename="')


async def keep(crib: Served, text: str, token: str = OWNERS) -> str:
    """Have a tool return a text that is too long for the model; the address of the artifact."""
    crib.gates.open.set()
    session_id = await crib.session(token=token)
    answer = await crib.client.post(
        f"/v1/sessions/{session_id}/tools/held_back/call",
        json={"arguments": {"text": text}},
        headers=crib.as_(token),
    )
    return f"/v1/sessions/{session_id}/artifacts/{answer.json()['artifact_id']}/content"


async def test_an_export_has_every_event_on_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several pages: the events that `events.list` gives, in order, each once."""
    monkeypatch.setattr(downloads, "_PAGE", 2)
    async with served() as crib:
        session_id = await crib.session()
        path = f"/v1/sessions/{session_id}"
        for text in ("one", "line\nbreak \u2028 and <script>"):
            await crib.client.post(f"{path}/tools/echo/call", json={"arguments": {"text": text}})

        answer = await crib.client.get(f"{path}/export")
        events = (await crib.client.get(f"{path}/events")).json()["events"]

    assert [json.loads(line) for line in answer.text.rstrip("\n").split("\n")] == events
    assert len(events) > 4
    assert answer.headers["content-type"] == "application/jsonl"
    assert answer.headers["content-disposition"] == 'attachment; filename="s.jsonl"'
    check_safe(answer)


@pytest.mark.parametrize("content", [PNG, PAGE], ids=["picture", "page"])
async def test_bytes_come_back_as_they_were(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the pages of the artifact are; only a picture has a type of its own."""
    monkeypatch.setattr(downloads, "_CHUNK", 1_000)
    monkeypatch.setattr(downloads, "_CHARACTERS", 10_001)
    async with served() as crib:
        path = await keep(crib, base64.b64encode(content).decode())

        answer = await crib.client.get(f"{path}?encoding=base64")

    assert answer.content == content
    expected = "image/png" if content is PNG else "application/octet-stream"
    assert answer.headers["content-type"] == expected
    check_safe(answer)


async def test_a_page_in_an_artifact_is_plain_text() -> None:
    """What a tool returned is never HTML to a browser."""
    async with served() as crib:
        path = await keep(crib, PAGE.decode())

        answer = await crib.client.get(path)

    assert answer.content == PAGE
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"].endswith('.txt"')
    check_safe(answer)


async def test_who_may_not_read_the_session_gets_no_file() -> None:
    """A foreign session does not exist for a caller; an auditor reads it; no token, no file."""
    async with served() as crib:
        artifact = await keep(crib, PAGE.decode())
        for path in ("/v1/sessions/s/export", artifact):
            for token, status in ((CALLERS, 404), (READERS, 200), ("no-token-0123456789", 401)):
                answer = await crib.client.get(path, headers=crib.as_(token))
                assert answer.status_code == status, (path, token)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/sessions/gone/export", 404),
        ("/v1/sessions/s/export?limit=3", 422),
        ("/v1/sessions/s/artifacts/gone/content", 404),
        ("/v1/sessions/s/artifacts/gone/content?encoding=html", 422),
    ],
)
async def test_a_file_that_is_not_there_is_refused_before_it_begins(path: str, status: int) -> None:
    """The refusal has its status and is JSON, not the beginning of a file."""
    async with served() as crib:
        await crib.session()

        answer = await crib.client.get(path)

    assert answer.status_code == status
    assert "error" in answer.json()
    assert "content-disposition" not in answer.headers


async def test_a_text_is_not_sent_as_bytes_that_it_does_not_hold() -> None:
    """Base64 that is none is refused, and says how to ask."""
    async with served() as crib:
        path = await keep(crib, PAGE.decode())

        answer = await crib.client.get(f"{path}?encoding=base64")

    assert answer.status_code == 422
    assert "encoding=text" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ('a"; filename="b.html', "a___filename__b.html"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("a\r\nSet-Cookie: x", "a__Set-Cookie__x"),
        ("\u202egnp.exe", "_gnp.exe"),
        ("...", "download"),
    ],
)
def test_a_name_of_somebody_else_cannot_leave_its_header(name: str, expected: str) -> None:
    """Ids are chosen by clients: in the name of a file they are plain letters."""
    assert downloads._file_name(name) == expected  # pyright: ignore[reportPrivateUsage]
