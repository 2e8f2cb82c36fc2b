"""Flags of commands and keys of the project file are one table."""

from __future__ import annotations

import re
from typing import Any

import pytest

from scripts.project_keys import MARK, PAGE, updated
from tests.cli.test_help import LEAVES
from tests.project.test_project_file import schema_keys
from toolcrib.cli.http_options import ServerOptions
from toolcrib.project import project_schema
from toolcrib.project.project import Project
from toolcrib.project.project_file import parse_project
from toolcrib.project.runtime import RuntimeOptions
from toolcrib.project.settings import (
    ACCESS_SETTINGS,
    RUNTIME_SETTINGS,
    SETTINGS,
    Setting,
)

KEYS = schema_keys(project_schema())
STRUCTURED = {
    "engine.api_key_file",
    "engine.heartbeat_seconds",
    "engine.tls.cert",
    "engine.tls.key",
    "engine.tls.server_ca",
    "engine.tls.server_name",
    "limits.call.timeout",
    "limits.call.max_parallel",
    "limits.call.max_threads",
    "limits.call.max_depth",
    "limits.call.question_seconds",
    "limits.call.max_arguments_bytes",
    "limits.call.max_result_chars",
    "limits.prompt.max_calls",
    "limits.prompt.max_cost",
    "limits.prompt.max_steps",
    "limits.prompt.max_tokens",
    "limits.prompt.seconds",
    "limits.drain_seconds",
    "limits.max_sessions",
    "limits.max_payload_bytes",
    "limits.event_backlog",
    "mcp_servers",
    "mcp_servers_file",
    "notifications.expiring_seconds",
    "notifications.include_arguments",
    "notifications.secret_env",
    "notifications.url_env",
    "prices",
    "replica.hints",
    "replica.process_check",
    "retention.delete",
    "retention.every",
    "retention.older_than",
}
"""Keys that have no flag of their own; `--set KEY=VALUE` sets each of them."""


def plain(key: str) -> str:
    """A key as the schema has it; `[]` stands for an item of a list."""
    return key.replace("[]", "")


def has_own_flag(key: str) -> bool:
    return any(plain(setting.key) == key for setting in SETTINGS)


def without_flag() -> set[str]:
    """Keys that only `--set` can set."""
    prefixes = ("hosted_tools.", "model.")
    return {key for key in KEYS if not has_own_flag(key) and not key.startswith(prefixes)}


def test_every_flag_has_a_key() -> None:
    """What can be said on the command line can be written down."""
    assert {plain(setting.key) for setting in SETTINGS} <= KEYS


def test_the_keys_without_a_flag_are_known() -> None:
    """A new key has a flag, or somebody decided that `--set` is enough."""
    assert without_flag() == STRUCTURED


def test_the_options_of_serve_are_those_of_the_table() -> None:
    """An option that is not in the table could not be written into the file."""
    flags = {
        flag
        for parameter in LEAVES["serve"].params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    table = {flag for setting in SETTINGS for flag in setting.flag.split("/")}
    assert flags - table == {"--http", "--open", "--stdio"}


def test_every_setting_has_its_place_in_the_options() -> None:
    """What a flag says is read by somebody."""
    runtime, server = set(RuntimeOptions.__slots__), set(ServerOptions.__slots__)
    assert {setting.name for setting in RUNTIME_SETTINGS} <= runtime
    assert {setting.name for setting in ACCESS_SETTINGS} == server


OF_ITEMS = [setting for setting in SETTINGS if "[]" in setting.key]
OF_VALUES = [setting for setting in SETTINGS if setting not in OF_ITEMS]


@pytest.mark.parametrize("setting", OF_ITEMS, ids=lambda setting: setting.key)
def test_a_flag_for_an_item_of_a_list_takes_nothing_from_the_file(
    setting: Setting, tmp_path: Any
) -> None:
    """It describes one more item; those of the file stay what they are."""
    change = "notifications=[{url: 'https://a.example', format: slack}]"
    project = parse_project("", file=tmp_path / "toolcrib.yaml", changes=[change])

    assert setting.in_project(project) is None
    assert [each.format for each in project.notifications] == ["slack"]


@pytest.mark.parametrize("setting", OF_VALUES, ids=lambda setting: setting.key)
def test_a_value_of_the_file_reaches_its_setting(setting: Setting, tmp_path: Any) -> None:
    """Each key is read where its flag would be."""
    written = VALUES.get(setting.key, _written(setting))
    (tmp_path / "f").touch()
    project = parse_project(
        "", file=tmp_path / "toolcrib.yaml", changes=[f"{setting.key}={written}", *more(setting)]
    )
    assert setting.in_project(project) not in (None, setting.default)
    assert setting.in_project(Project(file=tmp_path / "toolcrib.yaml")) is None


VALUES = {
    "engine.kind": "temporal",
    "engine.advance_turns": "false",
    "serve.oidc.roles": "{staff: caller}",
    "serve.oidc.issuer": "https://issuer.example",
    "serve.public_url": "https://crib.example",
    "serve.approve_by_elicitation": "always",
    "anchors.url": "https://anchors.example",
    "anchors.every": "5m",
    "client.url": "https://crib.example",
    "replica.url": "https://one.crib.example",
    "tools.bind_to": "version",
    "tools.modules": "[app]",
    "toolsets": "['app:tools']",
    "hooks": "['app:hooks']",
    "approver": "app:approver",
    "model.adapter": "app:adapter",
    "log.access": "false",
    "serve.console": "false",
    "log.format": "json",
    "log.level": "warning",
    "telemetry.metrics_listen": "127.0.0.1:9464",
    "telemetry.otlp": "false",
}


def _written(setting: Setting) -> str:
    if setting.kind is bool:
        return "true"
    if "list" in str(setting.kind):
        return "[f]"
    return "7" if "int" in str(setting.kind) or "float" in str(setting.kind) else "f"


def more(setting: Setting) -> list[str]:
    """What a key cannot be without."""
    if setting.key.startswith("serve.oidc."):
        return [] if setting.key.endswith("issuer") else ["serve.oidc.issuer=https://a.example"]
    if setting.key.startswith("serve.tls."):
        return [f"serve.tls.{'key' if setting.key.endswith('cert') else 'cert'}=f"]
    return []


def test_the_page_has_every_key_with_its_flag() -> None:
    """A reader finds each key, what it means, and the flag that is the same. To mend it, run:
    python scripts/project_keys.py
    """
    page = PAGE.read_text("utf-8")

    assert page == updated(page)
    keys = re.findall(r"^\| `([a-z_.\[\]]+)` \|", page.split(MARK)[1], re.M)
    assert {plain(key) for key in keys} == KEYS
