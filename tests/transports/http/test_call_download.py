"""All calls of a query as one CSV file over HTTP."""

from __future__ import annotations

import csv
import io

import pytest

from tests.transports.http.served_runtime import CALLERS, OWNERS, READERS, Served, served
from toolcrib.runtime.principal import OWNER
from toolcrib.transports.http import call_download

CSV = {"Accept": "text/csv"}


async def play(crib: Served, texts: list[str]) -> None:
    session_id = await crib.session()
    for text in texts:
        path = f"/v1/sessions/{session_id}/tools/echo/call"
        await crib.client.post(path, json={"arguments": {"text": text}})


async def test_every_call_of_the_query_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several pages: the rows of `calls.list` in order, each once, under one header."""
    monkeypatch.setattr(call_download, "MAX_CALLS", 2)
    async with served() as crib:
        await play(crib, ["a", "b", "c", "d", "e"])

        answer = await crib.client.get("/v1/calls?tool=echo", headers={**crib.as_(OWNERS), **CSV})
        listed = (await crib.client.get("/v1/calls?tool=echo")).json()["calls"]

    lines = [*csv.DictReader(io.StringIO(answer.text, newline=""))]
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="calls.csv"'
    assert [(line["call_id"], line["tool"]) for line in lines] == [
        (row["call_id"], "echo") for row in listed
    ]
    assert len(lines) == 5


async def test_csv_obeys_the_rules_of_the_list() -> None:
    """Whose calls one may not see are in no file; a query that means nothing is refused as JSON."""
    async with served() as crib:
        await play(crib, ["a"])
        owner, caller = {**crib.as_(OWNERS), **CSV}, {**crib.as_(CALLERS), **CSV}

        foreign = await crib.client.get("/v1/calls", headers=caller)
        assert len(foreign.text.splitlines()) == 1
        reader = await crib.client.get("/v1/calls", headers={**crib.as_(READERS), **CSV})
        assert len(reader.text.splitlines()) == 2
        for query in ("limit=5", "cursor=x", "status=odd"):
            refused = await crib.client.get(f"/v1/calls?{query}", headers=owner)
            assert refused.status_code == 422
            assert refused.json()["error"]["kind"] == "invalid"


async def test_a_client_that_leaves_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """No page is read for a client that is gone."""
    pages = 0

    async def ask(name: str, params: object, who: object) -> object:
        nonlocal pages
        pages += 1
        return await crib.runtime.ask(name, params)

    monkeypatch.setattr(call_download, "MAX_CALLS", 1)
    async with served() as crib:
        await play(crib, ["a", "b", "c", "d"])
        download = await call_download.CallPages.begin(ask, {}, OWNER)

        async def receive() -> dict[str, str]:
            return {"type": "http.disconnect"}

        async def send(message: object) -> None:
            pass

        await download.send(receive, send)
    assert pages < 4
