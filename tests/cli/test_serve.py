"""`toolcrib serve --http`, as a real process, and the commands that ask it."""

import asyncio
import json
import os
import signal
import stat
import subprocess
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, TextContent

from tests.cli.command import Served, at_terminal, invoke, run, serving
from tests.helpers.patience import PATIENCE
from tests.serving.certificate import Certificate
from toolcrib.cli.http_options import ServerOptions
from toolcrib.errors import UsageError
from toolcrib.serving.tokens import TokenFile, default_tokens_file

pytestmark = [pytest.mark.wire, pytest.mark.usefixtures("folder")]

MODULE = ("--host-tools-module", "cli_tools")


async def ask(served: Served, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another process that asks the server."""
    where = ("--url", served.url, "--token-file", "token")
    return await asyncio.to_thread(run, *arguments, *where, cwd=folder)


async def test_checking_a_policy_leaves_no_session_behind(folder: Path) -> None:
    """Newcomers 14: comparing a policy with the tools of a server makes no session that stays."""
    (folder / "policy.yaml").write_text("version: 1\nrules:\n  - allow: add\n", "utf-8")
    async with serving(*MODULE, cwd=folder) as served:
        checked = await ask(served, folder, "policy", "check", "policy.yaml")
        sessions = await ask(served, folder, "sessions", "list", "--json")

    assert checked.returncode == 0, checked.stderr
    assert json.loads(sessions.stdout) == []


async def test_a_call_on_a_server_goes_on_after_the_decision(folder: Path) -> None:
    """F17: with --wait the command goes on when somebody has approved, over --url too."""
    async with serving(*MODULE, cwd=folder) as served:
        words = ("tools", "call", "shout", "text=hi", "--wait")
        calling = asyncio.ensure_future(ask(served, folder, *words))
        inbox: list[dict[str, str]] = []
        while not inbox:
            listed = await ask(served, folder, "approvals", "list", "--json")
            inbox = json.loads(listed.stdout)
        await ask(served, folder, "approvals", "approve", inbox[0]["approval_id"])
        done = await calling

    assert (done.returncode, done.stdout) == (0, "HI\n")


async def test_a_server_is_asked_by_other_processes(folder: Path) -> None:
    """The same commands work on a server: list, call, wait, approve, go on, revoke, export."""
    async with serving(*MODULE, cwd=folder) as served:
        listed = json.loads((await ask(served, folder, "tools", "list", "--json")).stdout)
        added = await ask(served, folder, "tools", "call", "add", "a=2", "b=3")
        waiting = await ask(served, folder, "tools", "call", "shout", "text=hi", "--json")
        told = json.loads(waiting.stdout)
        inbox = json.loads((await ask(served, folder, "approvals", "list", "--json")).stdout)
        yes = ("approvals", "approve", told["approval_id"], "--grant", "session")
        session = inbox[0]["session_id"]
        await ask(served, folder, "tools", "call", "add", "a=1", "b=1", "--session", session)
        approved = await ask(served, folder, *yes)
        grants = json.loads((await ask(served, folder, "grants", "list", "--json")).stdout)
        revoked = await ask(served, folder, "grants", "revoke", grants[0]["grant_id"])
        again = ("--session", session, "--call-id", told["call_id"])
        done = await ask(served, folder, "tools", "call", "shout", "text=hi", *again)
        exported = await ask(served, folder, "sessions", "export", session)
        assert await served.stop() == 0

    assert [each["name"] for each in listed["tools"]] == [
        "add",
        "shout",
        "chatter",
        "linger",
        "hack",
    ]
    assert (added.returncode, added.stdout) == (0, "5\n")
    assert waiting.returncode == 4
    assert [each["approval_id"] for each in inbox] == [told["approval_id"]]
    assert approved.returncode == 0
    assert "as owner" in approved.stderr
    assert [(each["scope"], each["created_by"]) for each in grants] == [("session", "owner")]
    assert revoked.returncode == 0
    assert (done.returncode, done.stdout) == (0, "HI\n")
    kinds = [json.loads(line)["kind"] for line in exported.stdout.splitlines()]
    assert kinds[0] == "session.opened"
    assert "tool.invoked" in kinds


async def test_the_token_is_in_a_file_and_never_printed(folder: Path) -> None:
    """Where the token is stands on stderr; what it is stands nowhere."""
    async with serving(*MODULE, cwd=folder) as served:
        await served.hear("the owner's token is in token")
        await served.stop()

    token = (folder / "token").read_text("ascii").strip()
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    assert token not in "".join(served.said)


async def test_a_token_of_the_environment_and_another_host(folder: Path) -> None:
    """TOOLCRIB_OWNER_TOKEN is let in and not printed; --allow-host adds a name to those of
    loopback.
    """
    secret = "chosen-by-somebody-1"

    def status(host: str) -> int:
        connection = HTTPConnection(served.url.removeprefix("http://"), timeout=PATIENCE)
        headers = {"Host": host, "Authorization": f"Bearer {secret}"}
        try:
            connection.request("GET", "/v1/capabilities", headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    options = ("--allow-host", "shop.example")
    environment = {"TOOLCRIB_OWNER_TOKEN": secret}
    async with serving(*MODULE, *options, cwd=folder, tokens=(), **environment) as served:
        await served.hear("that of TOOLCRIB_OWNER_TOKEN")
        hosts = ("shop.example", "localhost", "evil.example")
        told = [await asyncio.to_thread(status, host) for host in hosts]
        await served.stop()

    assert told == [200, 200, 403]
    assert secret not in "".join(served.said)


async def test_the_token_of_a_client_does_not_become_the_owners(folder: Path) -> None:
    """Newcomers 16: with somebody's TOOLCRIB_TOKEN in the environment a server starts with its own
    token, says that it ignored that one, and refuses it.
    """
    secret = "alices-token-0123456789"
    async with serving(*MODULE, cwd=folder, TOOLCRIB_TOKEN=secret) as served:
        await served.hear("TOOLCRIB_TOKEN is the token of clients and is not used here")
        done = await asyncio.to_thread(
            run, "sessions", "list", "--url", served.url, cwd=folder, TOOLCRIB_TOKEN=secret
        )
        await served.stop()

    assert done.returncode == 1
    assert "not known here" in done.stderr
    assert secret not in "".join(served.said)


async def test_serving_others_without_encryption_is_warned_about(folder: Path) -> None:
    """Newcomers 16: on an address that others reach, tokens without TLS are loudly warned about;
    with a proxy that is named, they are not.
    """
    options, environment = ("--host", "0.0.0.0"), {"TOOLCRIB_OWNER_TOKEN": "chosen-0123456789"}
    async with serving(*MODULE, *options, cwd=folder, tokens=(), **environment) as served:
        await served.hear("WITHOUT ENCRYPTION")
        await served.stop()
    options = (*options, "--trusted-proxy", "10.0.0.0/8")
    async with serving(*MODULE, *options, cwd=folder, tokens=(), **environment) as served:
        await served.hear("the API is described")
        await served.stop()

    assert "ENCRYPTION" not in "".join(served.said)


async def test_a_wrong_token_is_refused(folder: Path) -> None:
    """Status 1, and the refusal of the server."""
    async with serving(*MODULE, cwd=folder) as served:
        done = await asyncio.to_thread(
            run, "tools", "list", "--url", served.url, cwd=folder, TOOLCRIB_TOKEN="x" * 20
        )

    assert (done.returncode, done.stdout) == (1, "")
    assert "token" in done.stderr


@pytest.mark.parametrize(("value", "told"), [("always", "HI"), ("never", "Waiting for approval")])
async def test_forms_at_mcp_clients_decide_if_that_is_said(
    folder: Path, value: str, told: str
) -> None:
    """--approve-by-elicitation: with `always` the answer of a client counts whose token may only
    call; with `never` it is not asked.
    """
    token = TokenFile(default_tokens_file()).create("ada", ["caller"]).token

    async def approve(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"decision": "approve"})

    async with serving(*MODULE, "--approve-by-elicitation", value, cwd=folder) as served:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            door = streamable_http_client(f"{served.url}/mcp", http_client=http)
            async with Client(door, elicitation_callback=approve) as client:
                done = await client.call_tool("shout", {"text": "hi"})
        await served.stop()

    (content,) = done.content
    assert isinstance(content, TextContent)
    assert content.text.startswith(told)


TOOL = """
tools:
  - name: {name}
    description: Says what it is.
    module: cli_handlers
    function: handle
    parameters: {{type: object}}
"""


async def test_changed_files_take_effect_and_broken_ones_do_not(folder: Path) -> None:
    """R32: --reload swaps the tools of a file in one step; a broken file changes nothing."""
    (folder / "cli_handlers.py").write_text("def handle(given, context):\n    return 1\n", "utf-8")
    file = folder / "tools.yaml"
    file.write_text(TOOL.format(name="before"), "utf-8")

    async def names() -> list[str]:
        done = await ask(served, folder, "tools", "list", "--json")
        return [each["name"] for each in json.loads(done.stdout)["tools"]]

    async with serving("--host-tools", "tools.yaml", "--reload", cwd=folder) as served:
        assert await names() == ["before"]
        file.write_text(TOOL.format(name="after"), "utf-8")
        await served.hear("reloaded; changed tools: after, before")
        assert await names() == ["after"]
        file.write_text("tools: [", "utf-8")
        await served.hear("not reloaded, everything stays as it was")
        # The watcher may have seen the file while it was still empty, and said so first.
        await served.hear("tools.yaml:1: this is not YAML")
        assert await names() == ["after"]
        assert await served.stop() == 0


PROJECT = """
tools: {modules: [cli_tools]}
policy: policy.yaml
store: crib.sqlite3
"""


async def test_it_says_what_it_serves(folder: Path) -> None:
    """The number of tools, the policy and its rules, the store, and where the token is."""
    (folder / "toolcrib.yaml").write_text(PROJECT, "utf-8")
    (folder / "policy.yaml").write_text("version: 1\nrules: [{deny: hack}]\n", "utf-8")
    async with serving(cwd=folder) as served:
        await served.hear("openapi.json")
        assert await served.stop() == 0
    said = "".join(served.said)
    assert f"project: {folder / 'toolcrib.yaml'}" in said
    assert "5 tools" in said
    assert f"policy: {folder / 'policy.yaml'}, 1 rule" in said
    assert f"store: {folder / 'crib.sqlite3'}" in said
    assert "the owner's token is in token" in said
    assert "NO POLICY" not in said


async def test_serving_without_a_policy_is_told_loudly(folder: Path) -> None:
    """Newcomers 5: what it means, and how to set one; and that nothing is kept."""
    async with serving(*MODULE, cwd=folder) as served:
        assert await served.stop() == 0
    said = "".join(served.said)
    assert said.count("WARNING: NO POLICY") == 1
    assert "--policy FILE" in said
    assert "store: none" in said


async def test_losing_the_policy_is_told_as_loudly(folder: Path) -> None:
    """A reload without a policy is as dangerous as a start without one."""
    (folder / "toolcrib.yaml").write_text(PROJECT, "utf-8")
    (folder / "policy.yaml").write_text("version: 1\nrules: [{deny: add}]\n", "utf-8")
    async with serving(cwd=folder) as served:
        (folder / "toolcrib.yaml").write_text(PROJECT.replace("policy: policy.yaml\n", ""), "utf-8")
        served.process.send_signal(signal.SIGHUP)
        await served.hear("WARNING: NO POLICY. Whoever may call tools may call all of them")
        assert await served.stop() == 0


async def test_serving_no_tools_is_told(folder: Path) -> None:
    """F14: clients may bring their own, so it starts, and says so."""
    async with serving(cwd=folder) as served:
        assert await served.stop() == 0
    assert "no tools: sessions have only those that their clients bring" in "".join(served.said)


async def test_it_ends_with_the_terminal_that_it_was_typed_at(folder: Path) -> None:
    """A window that is closed leaves no server behind, although a hangup reloads."""
    with at_terminal("serve", "--port", "0", "--token-file", "token", *MODULE, cwd=folder) as typed:
        await typed.see("serving on")
        typed.process.send_signal(signal.SIGHUP)
        await typed.see("reloaded; nothing changed")
        typed.terminal.end_input()
        assert await typed.exit_code() == 0


async def test_a_hangup_reloads_policy_and_modules(folder: Path) -> None:
    """Newcomers 6: SIGHUP takes over what the files say, also without --reload."""
    (folder / "toolcrib.yaml").write_text(PROJECT, "utf-8")
    (folder / "policy.yaml").write_text("version: 1\nrules: [{allow: add}]\n", "utf-8")
    async with serving(cwd=folder) as served:
        before = await ask(served, folder, "tools", "call", "add", "a=2", "b=3")
        (folder / "policy.yaml").write_text("version: 1\nrules: [{deny: add}]\n", "utf-8")
        served.process.send_signal(signal.SIGHUP)
        await served.hear("reloaded; policy:")
        after = await ask(served, folder, "tools", "call", "add", "a=2", "b=3")
        (folder / "policy.yaml").write_text("version: 2\n", "utf-8")
        served.process.send_signal(signal.SIGHUP)
        await served.hear("not reloaded, everything stays as it was")
        assert "policy.yaml:1:" in await served.hear("policy.yaml")
        assert await served.stop() == 0
    assert (before.returncode, after.returncode) == (0, 3)


async def test_a_revoked_token_ends_at_once(folder: Path) -> None:
    """Newcomers 6: tokens need no reload."""
    tokens = folder / "tokens.json"
    issued = TokenFile(tokens).create("ann", ["caller"])
    async with serving("--tokens", tokens, *MODULE, cwd=folder) as served:
        secret = folder / "ann"
        secret.write_text(issued.token, "utf-8")
        secret.chmod(0o600)
        listing = ("tools", "list", "--url", served.url, "--token-file", "ann")
        before = await asyncio.to_thread(run, *listing, cwd=folder)
        TokenFile(tokens).revoke("ann")
        after = await asyncio.to_thread(run, *listing, cwd=folder)
        assert await served.stop() == 0
    assert (before.returncode, after.returncode) == (0, 1)


async def test_ctrl_c_stops_it(folder: Path) -> None:
    """SIGINT drains and ends it like SIGTERM."""
    async with serving(*MODULE, cwd=folder) as served:
        served.process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(served.process.wait(), PATIENCE) == 0


def test_another_address_needs_a_token_that_somebody_chose(folder: Path) -> None:
    """Nothing is served to other machines under a token that was only made."""
    done = invoke("serve", "--http", "--host", "0.0.0.0", *MODULE)

    assert (done.exit_code, done.stdout) == (1, "")
    assert "TOOLCRIB_OWNER_TOKEN" in done.stderr


def test_a_token_file_for_other_machines_is_not_made(folder: Path) -> None:
    """A file that is not there was not chosen by anybody."""
    done = invoke("serve", "--http", "--host", "0.0.0.0", "--token-file", "none", *MODULE)

    assert done.exit_code == 1
    assert "none" in done.stderr
    assert not (folder / "none").exists()


def test_one_way_to_serve_is_named() -> None:
    """Both are wrong use."""
    done = invoke("serve", "--http", "--stdio", *MODULE)

    assert done.exit_code == 2
    assert "choose one" in done.stderr


def test_a_port_that_is_taken_is_told(folder: Path) -> None:
    """Status 1, with the address that could not be had."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("serve", "--http", "--port", port, "--token-file", "token", *MODULE, cwd=folder)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"port {port}" in done.stderr


class TestTheTokenGoesNowhereElse:
    def test_the_token_of_this_machine_is_not_sent_to_others(self, folder: Path) -> None:
        """Without a token for it, a server elsewhere is not asked at all."""
        token = folder / "state" / "toolcrib" / "token"
        token.parent.mkdir(parents=True)
        token.write_text("t" * 32, "ascii")
        os.chmod(token, 0o600)

        done = invoke("tools", "list", "--url", "https://tools.example.org")

        assert done.exit_code == 1
        assert "no token for https://tools.example.org" in done.stderr

    def test_a_server_that_is_not_there_is_told(self) -> None:
        """Status 1, and what to look at."""
        env = {"TOOLCRIB_TOKEN": "t" * 32}

        done = invoke("tools", "list", "--url", "http://127.0.0.1:1", env=env)

        assert (done.exit_code, done.stdout) == (1, "")
        assert "is `toolcrib serve --http` running there?" in done.stderr

    def test_what_is_no_address_is_told(self) -> None:
        """An address has a scheme and a host."""
        env = {"TOOLCRIB_TOKEN": "t" * 32}

        done = invoke("tools", "list", "--url", "localhost:8420", env=env)

        assert done.exit_code == 1
        assert "is no HTTP address" in done.stderr


class TestWhoMayUseIt:
    """The options that say who may use a server, without starting one."""

    def options(self, **values: Any) -> ServerOptions:
        return ServerOptions(host="127.0.0.1", port=0, **values)

    def test_groups_become_roles(self) -> None:
        """`GROUP=ROLE`, several for one group, and `*` for everybody."""
        roles = ["eng=caller", "eng=auditor", "a=b=approver", "*=caller"]
        options = self.options(
            oidc_issuer="https://login.example.com",
            oidc_role=roles,
            oidc_audience=["crib"],
            oidc_scope=["mcp"],
            public_url="https://crib.example.com",
            trusted_proxy=["10.0.0.0/8"],
        )
        issuer = next(iter(options.access().get("issuers", ())))

        assert {group: set(each) for group, each in issuer.roles.items()} == {
            "eng": {"caller", "auditor"},
            "a=b": {"approver"},
        }
        assert set(issuer.default_roles) == {"caller"}
        assert (issuer.audiences, issuer.required_scopes) == (("crib",), ("mcp",))
        assert issuer.label == "login.example.com"

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"oidc_role": ["a=caller"]}, "need --oidc-issuer"),
            ({"oidc_issuer": "https://a.example", "oidc_role": ["caller"]}, "GROUP=ROLE"),
            ({"oidc_issuer": "https://a.example", "oidc_role": ["a=root"]}, "no role 'root'"),
            ({"oidc_issuer": "https://a.example"}, "nobody"),
            ({"oidc_issuer": "http://a.example", "oidc_role": ["a=caller"]}, "https"),
        ],
    )
    def test_wrong_options_are_refused(self, values: dict[str, Any], message: str) -> None:
        """Nothing is served under a login that nobody meant."""
        with pytest.raises(UsageError, match=message):
            self.options(**values).access()

    @pytest.mark.parametrize("one", ["--tls-cert", "--tls-key"])
    def test_a_certificate_needs_its_key(self, one: str) -> None:
        """Status 1; nothing is served in the clear instead."""
        done = invoke("serve", "--http", one, "x.pem", *MODULE)

        assert done.exit_code == 1
        assert "go together" in done.stderr

    def test_an_issuer_needs_an_audience(self) -> None:
        """Else tokens for other servers would log in here."""
        issuer = ("--oidc-issuer", "https://login.example.com", "--oidc-role", "*=caller")
        done = invoke("serve", "--http", "--port", "0", *issuer, *MODULE)

        assert done.exit_code == 1
        assert "set an audience or the public URL" in done.stderr


async def test_serving_with_a_certificate(folder: Path) -> None:
    """The address that is printed is https, and the client speaks to it."""
    certificate = Certificate.make(folder, "localhost")
    files = certificate.files
    options = ("--tls-cert", files.certificate, "--tls-key", files.key)
    async with serving(*MODULE, *options, cwd=folder) as served:
        url = served.url.replace("127.0.0.1", "localhost")
        environment = {"SSL_CERT_FILE": str(files.certificate)}
        where = ("--url", url, "--token-file", "token")
        done = await asyncio.to_thread(run, "tools", "list", *where, cwd=folder, **environment)
        await served.stop()

    assert served.url.startswith("https://")
    assert done.returncode == 0, done.stderr
    assert "shout" in done.stdout


async def test_a_look_at_the_tools_of_a_server_leaves_no_session(folder: Path) -> None:
    """Newcomers 14: listing and showing tools leave nothing in the server's store; a call stays on
    record, and the list says whose and when.
    """
    async with serving(*MODULE, cwd=folder) as served:
        await ask(served, folder, "tools", "list")
        await ask(served, folder, "tools", "show", "add")
        looked = json.loads((await ask(served, folder, "sessions", "list", "--json")).stdout)
        await ask(served, folder, "tools", "call", "add", "a=2", "b=3")
        called = json.loads((await ask(served, folder, "sessions", "list", "--json")).stdout)
        listed = await ask(served, folder, "sessions", "list")

    assert looked == []
    assert [each["owner"] for each in called] == ["owner"]
    assert called[0]["last_event_at"] >= called[0]["created_at"] > 0
    assert "\towner\t" in listed.stdout
