"""Containers that may reach some domains: real code in a sandbox, real servers on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from tests.embedded.scripted_provider import served
from tests.embedded.test_egress_proxy import ANSWER, Target, target
from tests.embedded.tools.hosted_calls import call_tool, logs_of, python, relay, run_code
from toolcrib.errors import SandboxUnavailable
from toolcrib.sandbox import Sandbox, find_sandbox

FETCH = """
import urllib.request, urllib.error
def fetch(url, **options):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **options), timeout=20) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except OSError as error:
        return f"{type(error).__name__} {error}"
"""


def policy(*domains: str) -> dict[str, Any]:
    """The network policy that lists some domains."""
    return {"type": "allowlist", "allowed_domains": list(domains)}


def container(*domains: str) -> dict[str, Any]:
    """A new container with a list of domains."""
    return {"type": "auto", "network_policy": policy(*domains)}


@pytest.fixture
async def namespace() -> None:
    """Skips where the machine has no network namespace."""
    try:
        await find_sandbox("bubblewrap")
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@asynccontextmanager
async def reachable(script: Any = python) -> AsyncGenerator[tuple[AsyncOpenAI, Target, Target]]:
    """A provider, a server that its containers may be allowed to reach as `localhost`, and another
    one on this machine that nobody may reach.
    """
    async with target() as server, target() as other:
        allowed = [f"localhost:{server.port}"]
        async with served(script, allow_network=True, allow_egress=allowed) as (client, _):
            yield client, server, other


@pytest.mark.usefixtures("namespace")
async def test_code_reaches_its_domains_and_nothing_else() -> None:
    """An allowed name is reached through the proxy; other names, addresses, ports and ways out are
    closed, also for code that knows where the proxy is.
    """
    async with reachable() as (client, server, other):
        code = f"""{FETCH}
import os, socket
print(1, fetch("http://LOCALHOST.:{server.port}/a", data=b"x" * 300_000 + b"END"))
print(2, fetch("http://127.0.0.1:{server.port}/"))
print(3, fetch("http://localhost:{other.port}/"))
print(4, fetch("http://other.example/"))
print(5, fetch("http://localhost:{server.port}/", headers={{"Host": "other.example"}}))
for number, place in enumerate([("127.0.0.1", {server.port}), ("1.1.1.1", 443)], 6):
    try:
        socket.create_connection(place, timeout=5)
    except OSError as error:
        print(number, type(error).__name__)
try:
    socket.getaddrinfo("localhost.example", 80)
except OSError as error:
    print(8, type(error).__name__)
near = socket.socket(socket.AF_UNIX)
near.connect("/run/toolcrib/proxy")
near.sendall(b"CONNECT 127.0.0.1:{server.port} HTTP/1.1\\r\\n\\r\\n")
print(9, near.recv(100).split(b"\\r\\n")[0])
print(10, sorted(os.listdir("/run/toolcrib")))
"""
        server.ending = b"END"
        logs = logs_of(await run_code(client, code, container("localhost")))
    lines = dict(line.split(" ", 1) for line in logs.splitlines() if line[:1].isdigit())
    assert lines["1"] == "hello"
    assert lines["2"].startswith("403 toolcrib egress proxy: 127.0.0.1 is not among")
    assert lines["3"].startswith("403")
    assert "port" in lines["3"]
    assert lines["4"].startswith("403")
    assert lines["5"].startswith("400")
    assert lines["6"] == "ConnectionRefusedError"
    assert lines["7"] == "OSError"
    assert lines["8"] == "gaierror"
    assert lines["9"] == "b'HTTP/1.1 403 Forbidden'"
    assert lines["10"] == "['proxy']"
    assert len(server.received) == 1
    assert len(server.received[0]) > 300_000
    assert other.received == []


@pytest.mark.usefixtures("namespace")
async def test_commands_have_the_same_way_out() -> None:
    """A shell finds the proxy by the usual variables; its own processes are as before."""
    async with reachable(relay) as (client, server, _):
        shell = {
            "type": "shell",
            "environment": {"type": "container_auto", "network_policy": policy("localhost")},
        }
        fetch = (
            f"import urllib.request as u; print(u.urlopen('http://localhost:{server.port}').read())"
        )
        commands = [f'python3 -c "{fetch}"', "echo $HTTPS_PROXY; wait; exit 3"]
        response = await call_tool(client, shell, "shell", {"commands": commands})
    first, second = response.output[1].output
    assert first.stdout == "b'hello'\n"
    assert (second.stdout, second.outcome.exit_code) == ("http://127.0.0.1:3128\n", 3)


@pytest.mark.usefixtures("namespace")
async def test_a_container_keeps_its_list(tmp_path: Path) -> None:
    """The list is part of the container: shown, kept over a restart, and not shared with others."""
    code = f"{FETCH}\nprint(fetch('http://localhost:PORT/'))"
    async with target() as server:
        code = code.replace("PORT", str(server.port))
        options = {
            "allow_network": True,
            "allow_egress": [f"localhost:{server.port}"],
            "data": tmp_path,
        }
        async with served(python, **options) as (client, _):
            first = await run_code(client, code, container("localhost"))
            container_id = first.output[0].container_id
            shown = await client.containers.retrieve(container_id)
            other = await run_code(client, code, container("*.localhost"))
        async with served(python, **options) as (client, _):
            again = await run_code(client, code, container_id)
    assert logs_of(first) == logs_of(again) == "hello\n"
    assert logs_of(other).startswith("403")
    assert shown.network_policy is not None
    assert shown.network_policy.allowed_domains == ["localhost"]


@pytest.mark.usefixtures("namespace")
async def test_a_redirect_is_not_followed_out_of_the_list() -> None:
    """The client in the container follows it, and is refused."""
    async with reachable() as (client, server, other):
        place = f"http://127.0.0.1:{other.port}/"
        server.answer = ANSWER.replace(b"200 OK", f"302 Found\r\nlocation: {place}".encode())
        code = f"{FETCH}\nprint(fetch('http://localhost:{server.port}/'))"
        logs = logs_of(await run_code(client, code, container("localhost")))
    assert logs.startswith("403 toolcrib egress proxy")
    assert other.received == []


@pytest.mark.usefixtures("namespace")
async def test_an_ended_container_has_no_way_out() -> None:
    """Deleting a container ends its proxy and what it carries."""
    async with reachable() as (client, server, _):
        response = await run_code(client, "1", container("localhost"))
        await client.containers.delete(response.output[0].container_id)
    assert server.received == []
    assert not [task for task in asyncio.all_tasks() if "EgressProxy" in repr(task)]


@pytest.mark.parametrize(
    ("domains", "more", "named"),
    [
        ([], {}, "1 to 100"),
        (["*", "a.example"], {}, "'\\*' is no domain"),
        (["https://a.example"], {}, "is no domain"),
        (["127.0.0.1"], {}, "is no domain"),
        (
            ["a.example"],
            {"domain_secrets": [{"domain": "a.example", "name": "KEY", "value": "a-secret-value"}]},
            "Domain secrets",
        ),
    ],
)
async def test_a_policy_that_cannot_be_kept(domains: Any, more: Any, named: str) -> None:
    """It is refused before anything is made, and the refusal repeats no secret."""
    async with served(python, allow_network=True) as (client, puppet):
        wanted: Any = {"type": "auto", "network_policy": {**policy(*domains), **more}}
        with pytest.raises(BadRequestError, match=named) as caught:
            await run_code(client, "1", wanted)
        assert (await client.containers.list()).data == []
    assert puppet.requests == []
    assert "a-secret-value" not in str(caught.value)


@pytest.mark.parametrize("backend", ["sandlock", "rlimits", None])
async def test_without_a_network_namespace_a_list_is_refused(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can close the other ways out, the request is refused with the reason."""

    async def chosen(*, allow_unconfined: bool) -> Sandbox:
        if backend is None:
            raise SandboxUnavailable("nothing here can confine a program")
        return await find_sandbox(backend)

    monkeypatch.setattr("toolcrib.embedded.containers.repository.find_sandbox", chosen)
    async with served(python, allow_network=True) as (client, puppet):
        with pytest.raises(BadRequestError, match="cannot be enforced here"):
            await run_code(client, "1", container("a.example"))
        create: Any = client.containers.create
        with pytest.raises(BadRequestError, match="cannot be enforced here"):
            await create(name="x", network_policy=policy("a.example"))
    assert puppet.requests == []
