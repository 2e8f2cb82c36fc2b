"""`toolcrib serve` in operation, as a real process: its log, its metrics, its exports and the
webhooks that it tells.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest

from tests.cli.command import Served, invoke, run, serving
from tests.helpers.patience import PATIENCE
from tests.notifications.receiver import receiver
from tests.telemetry.test_otlp import collector
from toolcrib.logs import FORMATS, LEVELS
from toolcrib.notifications import options as notification_options
from toolcrib.project.settings import LogFormatChoice, LogLevelChoice, NotificationFormatChoice

pytestmark = [pytest.mark.wire, pytest.mark.usefixtures("folder")]

MODULE = ("--host-tools-module", "cli_tools")
SECRET = base64.b64encode(bytes(range(32))).decode()


async def call(served: Served, folder: Path, tool: str, **arguments: Any) -> httpx2.Response:
    """Call a tool in a session of its own."""
    token = (folder / "token").read_text("ascii").strip()
    headers = {"Authorization": f"Bearer {token}", "X-Request-Id": "r-1"}
    async with httpx2.AsyncClient(base_url=served.url, headers=headers, timeout=PATIENCE) as client:
        await client.post("/v1/sessions", json={"session_id": f"s-{tool}"})
        return await client.post(
            f"/v1/sessions/s-{tool}/tools/{tool}/call", json={"arguments": arguments}
        )


async def test_every_line_of_the_log_is_json(folder: Path) -> None:
    """Newcomers C: `serve` says what happens: a line for each call and each request, as JSON, with
    who, what, how long and the id of the request; no argument is in it.
    """
    options = ("--log-format", "json", "--host-tools-module", "cli_tools")
    async with serving(*options, cwd=folder) as served:
        await call(served, folder, "shout", text="hunter2-0123456789")
        await call(served, folder, "add", a=2, b=3)
        await served.hear("/tools/{name}/call")
        await served.hear("/tools/{name}/call")
        await served.stop()

    # The module prints a line of its own when it is imported.
    printed = "".join(served.said).splitlines()
    lines = [json.loads(each) for each in printed if each != "loading"]
    said = {each["message"] for each in lines if each["logger"] == "toolcrib.cli"}
    assert f"serving on {served.url}" in said
    calls = [each for each in lines if each["logger"] == "toolcrib.calls"]
    assert [(each["tool"], each["status"]) for each in calls] == [
        ("shout", "waiting"),
        ("add", "completed"),
    ]
    ended = calls[1]
    assert (ended["level"], ended["principal"], ended["session_id"]) == ("info", "owner", "s-add")
    assert (ended["request_id"], ended["transport"]) == ("r-1", "http")
    assert ended["seconds"] >= 0
    access = [each for each in lines if each["logger"] == "toolcrib.access"]
    assert len(access) == 4
    assert {each["request_id"] for each in access} == {"r-1"}
    assert "hunter2" not in "".join(served.said)


@pytest.mark.parametrize(
    ("options", "has_calls", "has_requests"),
    [
        ((), True, True),
        (("--no-access-log",), True, False),
        (("--log-level", "warning"), False, False),
    ],
)
async def test_what_is_logged_is_chosen(
    folder: Path, options: tuple[str, ...], has_calls: bool, has_requests: bool
) -> None:
    """Calls and requests by default; no requests, or neither."""
    async with serving(*MODULE, *options, cwd=folder) as served:
        await call(served, folder, "add", a=2, b=3)
        await served.stop()

    said = "".join(served.said)
    assert ("toolcrib.calls: call completed" in said) is has_calls
    assert ("toolcrib.access: request" in said) is has_requests


async def test_a_browser_finds_the_document_and_a_probe_its_answer(folder: Path) -> None:
    """Newcomers C: what the start-up line tells you to see can be seen, `/` is no error, and the
    health checks need no token.
    """
    async with serving(*MODULE, cwd=folder) as served:
        line = await served.hear("the API is described at")
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            document = await client.get(line.split(" at ")[1].split(";")[0])
            front = await client.get(f"{served.url}/")
            probes = [await client.get(f"{served.url}{path}") for path in ("/healthz", "/readyz")]
        await served.stop()

    assert document.json()["openapi"].startswith("3.")
    assert front.status_code == 200
    assert [each.text for each in probes] == ["ok\n", "ok\n"]


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


async def test_metrics_are_served_where_the_options_say(folder: Path) -> None:
    """Newcomers C: `/metrics`, with a token at the API, and without one on a port on loopback."""
    listen = f"127.0.0.1:{free_port()}"
    options = ("--metrics-listen", listen, "--metrics-by-principal")
    async with serving(*MODULE, *options, cwd=folder) as served:
        await call(served, folder, "add", a=2, b=3)
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            scraped = await client.get(f"http://{listen}/metrics")
            stranger = await client.get(f"{served.url}/metrics")
        await served.stop()

    assert (
        'toolcrib_calls_total{place="local",principal="owner",status="completed",tool="add"} 1.0'
        in scraped.text
    )
    assert stranger.status_code == 401


async def test_the_standard_variables_turn_telemetry_on(folder: Path) -> None:
    """Newcomers C: `serve` exports over OTLP by OTEL_EXPORTER_OTLP_ENDPOINT, and not with
    --no-otlp.
    """
    with collector() as got:
        async with serving(*MODULE, cwd=folder, OTEL_EXPORTER_OTLP_ENDPOINT=got.url) as served:
            await call(served, folder, "add", a=2, b=3)
            assert await served.stop() == 0
        assert "execute_tool add" in got.spans()
        assert "toolcrib.calls" in got.metric_names()
    with collector() as silent:
        options = (*MODULE, "--no-otlp")
        async with serving(*options, cwd=folder, OTEL_EXPORTER_OTLP_ENDPOINT=silent.url) as served:
            await call(served, folder, "add", a=2, b=3)
            await served.stop()
        assert silent.traces == []


async def test_webhooks_of_the_project_and_of_the_flags_are_told(folder: Path) -> None:
    """Newcomers C: approvers get a notice, signed, with a link; the secret is printed nowhere."""
    with receiver() as of_project, receiver() as of_flags:
        (folder / "toolcrib.yaml").write_text(
            "tools: {modules: [cli_tools]}\n"
            "log: {format: json}\n"
            "notifications:\n"
            f"  - {{url: '{of_project.url}', secret_env: HOOK_SECRET, events: [waiting]}}\n"
        )
        (folder / "slack-url").write_text(of_flags.url)
        options = ("--notify-url-file", "slack-url", "--notify-format", "slack")
        options = (*options, "--notify-link", "https://crib.example/{approval_id}")
        async with serving(*options, cwd=folder, HOOK_SECRET=SECRET) as served:
            await call(served, folder, "shout", text="hi")
            signed = await asyncio.to_thread(of_project.next)
            slack = await asyncio.to_thread(of_flags.next)
            await served.stop()

    assert signed.json["type"] == "approval.waiting"
    assert signed.headers["webhook-signature"].startswith("v1,")
    assert "https://crib.example/apr_" in slack.body.decode()
    said = "".join(served.said)
    assert SECRET not in said
    assert "hook-path" not in said
    assert '"logger": "toolcrib.calls"' in said


def test_a_webhook_is_tried_before_it_is_needed(folder: Path) -> None:
    """`toolcrib notifications test` sends a sample of each event, and says what came of it."""
    (folder / "secret").write_text(SECRET)
    with receiver(204, 500) as hook:
        options = ("--notify-url", hook.url, "--notify-secret-file", "secret")
        options = (*options, "--notify-event", "waiting", "--notify-event", "failed")
        result = run("notifications", "test", *options, cwd=folder)
        events = [hook.next().json["type"] for _ in range(2)]

    assert events == ["approval.waiting", "call.failed"]
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "127.0.0.1 (json) waiting: taken",
        "127.0.0.1 (json) failed: NOT taken: it answered 500",
    ]
    assert SECRET not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--metrics-listen", "here"), "write ADDRESS:PORT"),
        (("--notify-url", "https://a.example"), "needs a secret"),
        (("--notify-link", "https://a.example"), "give that too"),
        (("--notify-url", "x", "--notify-format", "slack"), "no http or https address"),
        (("--log-level", "loud"), "loud"),
        (("--stdio", "--metrics"), "for HTTP only"),
    ],
)
def test_a_wrong_option_ends_the_command(options: tuple[str, ...], fault: str) -> None:
    """Before anything is served, with what to write."""
    result = invoke("--no-project", "serve", "--port", "0", "--token-file", "token", *options)

    assert result.exit_code != 0
    assert fault in " ".join(result.stderr.split())


def test_the_address_of_a_webhook_is_not_shown(folder: Path) -> None:
    """It is a credential where it is one of Slack's; `config show` says only that there is one."""
    result = run("config", "show", "--notify-url", "https://a.example/T0/very-secret", cwd=folder)

    assert result.returncode == 0, result.stderr
    assert "very-secret" not in result.stdout
    assert "notifications[].url" in result.stdout


def test_the_choices_of_flags_are_those_of_the_options() -> None:
    """The table of settings spells them out, so that commands start without the modules."""
    assert get_args(LogLevelChoice) == LEVELS
    assert get_args(LogFormatChoice) == FORMATS
    assert get_args(NotificationFormatChoice) == notification_options.FORMATS
