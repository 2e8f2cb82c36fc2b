"""Approvers at the command line: bounded grants, previews, answers, and who may do what."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Served, invoke, run, serving
from toolcrib.serving.tokens import TokenFile

pytestmark = pytest.mark.usefixtures("folder")

MODULE = ("--host-tools-module", "cli_tools")
STORE = ("--store", "crib.sqlite3")


def waiting(text: str = "hi") -> dict[str, Any]:
    """A call that waits in the store."""
    done = invoke("tools", "call", "shout", f"text={text}", *MODULE, *STORE, "--json")
    assert done.exit_code == 4, done.output
    (request,) = json.loads(invoke("approvals", "list", *STORE, "--json").stdout)
    return request


class TestGrants:
    def test_a_grant_is_bounded(self) -> None:
        """Newcomers C: whose calls, which arguments, how often and how long, at the command."""
        request = waiting()
        limits = ("--arguments", '{"/text": {"glob": "h*"}}', "--uses", "5", "--expires", "7d")
        done = invoke(
            "approvals", "approve", request["approval_id"], *STORE, "--grant", "principal", *limits
        )
        assert done.exit_code == 0, done.output

        (grant,) = json.loads(invoke("grants", "list", *STORE, "--json").stdout)
        line = invoke("grants", "list", *STORE).stdout
        shown = invoke("grants", "show", grant["grant_id"], *STORE).stdout

        me = request["caller"]["principal"]
        assert (grant["principal"], grant["uses_left"]) == (me, 5)
        assert grant["expires_at"] == pytest.approx(grant["created_at"] + 7 * 86_400, abs=1)
        for text in (f"principal={me}", "5 uses or ", '{"/text":{"glob":"h*"}}', f"\t{me}\t"):
            assert text in line
        for text in (f"principal={me}", "uses left", "given by"):
            assert text in shown
        revoked = invoke("grants", "revoke", grant["grant_id"], *STORE, "--by", "bob")
        assert revoked.exit_code == 0
        assert "by bob" in invoke("grants", "show", grant["grant_id"], *STORE).stdout

    def test_a_grant_for_everyone_takes_a_limit_or_the_word(self) -> None:
        """Newcomers C: `--grant everyone` alone decides nothing; --unlimited is deliberate."""
        approval = waiting()["approval_id"]

        bare = invoke("approvals", "approve", approval, *STORE, "--grant", "everyone")
        still = json.loads(invoke("approvals", "list", *STORE, "--json").stdout)
        meant = invoke(
            "approvals", "approve", approval, *STORE, "--grant", "everyone", "--unlimited"
        )

        assert (bare.exit_code, meant.exit_code) == (1, 0)
        assert "unlimited" in bare.stderr
        assert len(still) == 1

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--arguments", "{}"), "--edit"),
            (("--uses", "3"), "--grant"),
            (("--preview",), "--grant"),
            (("--grant", "session", "--expires", "soon"), "--expires"),
            (("--grant", "always"), "everyone"),
        ],
    )
    def test_options_that_mean_nothing_are_refused(
        self, options: tuple[str, ...], words: str
    ) -> None:
        """An option without a grant, or one that cannot be read, is a wrong command."""
        done = invoke("approvals", "approve", "a1", *STORE, *options)

        assert done.exit_code == 2
        assert words in done.stderr

    def test_a_preview_decides_nothing(self) -> None:
        """It prints the past calls that the grant would have covered."""
        for text in ("hi", "ho"):
            request = waiting(text)
            invoke("approvals", "approve", request["approval_id"], *STORE)
            again = ("--session", request["session_id"], "--call-id", request["call_id"])
            invoke("tools", "call", "shout", f"text={text}", *MODULE, *STORE, *again)
        approval = waiting("he")["approval_id"]

        preview = ("--grant", "principal", "--preview", "--arguments")
        some = invoke("approvals", "approve", approval, *STORE, *preview, '{"/text": "hi"}')
        typo = invoke("approvals", "approve", approval, *STORE, *preview, '{"/txt": "hi"}')
        left = json.loads(invoke("approvals", "list", *STORE, "--json").stdout)

        assert some.exit_code == typo.exit_code == 0
        (line,) = some.stdout.splitlines()
        assert '{"text":"hi"}' in line
        assert "1 of 2 past calls" in some.stderr
        assert "would not cover this very call" in some.stderr
        assert "no argument /txt" in typo.stderr
        assert ([each["approval_id"] for each in left], len(left)) == ([approval], 1)


def test_an_answer_replaces_the_result() -> None:
    """Toolsets F12: the tool does not run, and the answer is its result."""
    request = waiting()

    done = invoke("approvals", "answer", request["approval_id"], '"quiet"', *STORE)
    again = ("--session", request["session_id"], "--call-id", request["call_id"])
    result = invoke("tools", "call", "shout", "text=hi", *MODULE, *STORE, *again)
    wrong = invoke("approvals", "answer", request["approval_id"], "{", *STORE)

    assert (done.exit_code, wrong.exit_code) == (0, 2)
    assert (result.exit_code, result.stdout) == (0, "quiet\n")


def test_a_request_is_shown_with_who_asks() -> None:
    """Newcomers 8: in the list, in the whole request, and as JSON."""
    request = waiting()
    me = request["caller"]["principal"]

    listed = invoke("approvals", "list", *STORE).stdout
    shown = invoke("approvals", "show", request["approval_id"], *STORE).stdout

    assert f"\t{me}\t" in listed
    assert f"asked by: {me}, directly, over cli" in " ".join(shown.split())


def test_an_explanation_takes_people(tmp_path: Path) -> None:
    """`policy explain` answers for a principal and its groups."""
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\nrules:\n  - deny: pay\n    group: interns\n")
    explain = ("policy", "explain", file, "--tool", "pay", "--json")

    denied = json.loads(invoke(*explain, "--principal", "ann", "--group", "interns").stdout)
    other = json.loads(invoke(*explain, "--principal", "ann").stdout)

    assert (denied["verdict"]["effect"], other["verdict"]["effect"]) == ("deny", "ask")


@pytest.mark.wire
async def test_people_at_one_server(folder: Path) -> None:
    """Security 10, newcomers 7 and 8, as processes: the hint names the server, also from
    TOOLCRIB_URL; nobody approves their own call; another approver sees who asks, and approves.
    """
    tokens = TokenFile(folder / "people.json")
    secrets = {
        "dave": tokens.create("dave", ["caller", "approver"]).token,
        "carol": tokens.create("carol", ["approver"]).token,
    }

    async def at(served: Served, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {"TOOLCRIB_URL": served.url, "TOOLCRIB_TOKEN": secrets[name]}
        return await asyncio.to_thread(run, *arguments, cwd=folder, **env)

    async with serving(*MODULE, "--tokens", "people.json", cwd=folder) as served:
        call = await at(served, "dave", "tools", "call", "shout", "text=hi", "--json")
        result = json.loads(call.stdout)
        approval = result["approval_id"]
        own = await at(served, "dave", "approvals", "approve", approval)
        shown = await at(served, "carol", "approvals", "show", approval)
        other = await at(served, "carol", "approvals", "approve", approval)
        await served.stop()

    assert call.returncode == 4
    assert "Somebody who may approve it decides" in call.stderr
    assert f"toolcrib approvals approve {approval} --url {served.url}" in call.stderr
    assert "--store" not in call.stderr
    assert own.returncode == 1
    assert "somebody else has to approve it" in own.stderr
    assert "dave, directly, over http" in shown.stdout
    assert other.returncode == 0
