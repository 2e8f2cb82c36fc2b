"""`toolcrib tokens`: made, listed, replaced and revoked, while a server runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.command import invoke, run, serving
from toolcrib.serving.tokens import TokenFile, default_tokens_file

pytestmark = [pytest.mark.wire, pytest.mark.usefixtures("folder")]

CREATE = ("tokens", "create", "alice", "--role", "caller,approver", "--group", "eng")


def test_a_token_is_printed_once(folder: Path) -> None:
    """The secret is alone on stdout; neither `list` nor the file has it."""
    made = invoke(*CREATE, "--expires", "90d")
    listed = invoke("tokens", "list")
    as_json = invoke("tokens", "list", "--json")
    token = made.stdout.strip()

    assert made.exit_code == 0
    assert token.startswith("tc_")
    assert token not in made.stderr + listed.output + as_json.output
    assert token not in default_tokens_file().read_text()
    assert "alice  caller,approver  groups eng  until" in listed.stdout
    (facts,) = json.loads(as_json.stdout)
    assert (facts["name"], facts["roles"]) == ("alice", ["caller", "approver"])
    assert facts["expires_at"] - facts["created_at"] == 90 * 86_400


def test_a_token_is_replaced_and_revoked(folder: Path) -> None:
    """By the name or the id; what is not there is an error."""
    invoke(*CREATE, "--expires", "never", "--tokens", "team.json")
    (before,) = TokenFile(Path("team.json")).records()
    rotated = invoke("tokens", "rotate", "alice", "--tokens", "team.json", "--json")
    facts = json.loads(rotated.stdout)
    revoked = invoke("tokens", "revoke", facts["id"], "--tokens", "team.json")
    again = invoke("tokens", "revoke", "alice", "--tokens", "team.json")

    assert before.expires_at is None
    assert facts["id"] != before.id
    assert facts["token"].startswith(f"tc_{facts['id']}_")
    assert revoked.exit_code == 0
    assert "alice" in revoked.stderr
    assert again.exit_code == 1
    assert "tokens list" in again.stderr


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--role", "root"), "roles"),
        (("--role", "caller", "--expires", "soon"), "is not a duration"),
        (("--role", "caller", "--group", "a/b"), "groups"),
    ],
)
def test_wrong_options_make_no_token(options: tuple[str, ...], fault: str) -> None:
    """Status 1, what is wrong, and nothing on stdout."""
    done = invoke("tokens", "create", "alice", *options)

    assert (done.exit_code, done.stdout) == (1, "")
    assert fault in done.stderr
    assert not default_tokens_file().exists()


async def test_tokens_take_effect_in_a_running_server(folder: Path) -> None:
    """Newcomers 6: a token that is made while a server runs is let in, and once it is revoked it
    is refused, without a restart.
    """
    async with serving("--host-tools-module", "cli_tools", cwd=folder) as served:

        async def listed(token: str) -> int:
            command = ("sessions", "list", "--url", served.url)
            done = await asyncio.to_thread(run, *command, cwd=folder, TOOLCRIB_TOKEN=token)
            return done.returncode

        made = await asyncio.to_thread(run, *CREATE, cwd=folder)
        token = made.stdout.strip()
        before = await listed(token)
        await asyncio.to_thread(run, "tokens", "revoke", "alice", cwd=folder)
        after = await listed(token)
        await served.stop()

    assert (before, after) == (0, 1)
    assert token not in "".join(served.said)
