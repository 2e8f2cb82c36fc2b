"""`toolcrib gateway`: sign in at a terminal, use the server, see who has signed in, sign out."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from tests.cli.command import MAIN, invoke
from tests.helpers.patience import PATIENCE
from tests.mcp_client.oauth_town import NAME, browse, town
from tests.node.peers import needs_node
from toolcrib.store.cipher import new_key

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("folder"), needs_node]

PERSON = "somebody"
"""Who uses the commands: the user of the OS."""


async def _run(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *MAIN, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(PATIENCE):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_signing_in_at_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link leads to the authorization server and back to the command; then another command
    calls the server, the list names who signed in without a token, and a sign-out ends it.
    """
    monkeypatch.setenv("TOOLCRIB_STORE_KEY", new_key())
    monkeypatch.setenv("LOGNAME", PERSON)
    async with town() as place:
        entry = {"url": place.resource.url, "approval": "policy", "auth": {"type": "oauth"}}
        file = folder / "gateway.yaml"
        file.write_text(json.dumps({"mcp_servers": {NAME: entry}}), "utf-8")
        options = ("--host-tools", str(file), "--store", "crib.sqlite3")
        process = await asyncio.create_subprocess_exec(
            *MAIN,
            "gateway",
            "sign-in",
            NAME,
            *options,
            "--principal",
            PERSON,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            link = (await process.stdout.readline()).decode().strip()
            back = await browse(link, "ada", until="http://127.0.0.1", stays=place.identity.issuer)
            assert "/callback?" in back
            async with httpx2.AsyncClient() as browser:
                assert (await browser.get(back)).status_code == 200
            _, said = await process.communicate()
        assert process.returncode == 0, said

        called = await _run("tools", "call", f"{NAME}_whoami", *options)
        listed = await _run("gateway", "list", "--store", "crib.sqlite3", "--json")
        out = await _run("gateway", "sign-out", NAME, *options, "--principal", PERSON)
        again = await _run("gateway", "sign-out", NAME, *options, "--principal", PERSON)
    assert called[0] == 0, called
    assert "ada" in called[1]
    [facts] = json.loads(listed[1])
    assert (facts["server"], facts["principal"]) == (NAME, PERSON)
    assert not [token for token in place.resource.seen if token in listed[1]]
    assert out[0] == 0, out
    assert again[0] == 1


def test_a_store_is_needed() -> None:
    """Credentials lie in a store, so a command without one says so."""
    result = invoke("gateway", "list")

    assert result.exit_code == 2
    assert "--store" in result.output
