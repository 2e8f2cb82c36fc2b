"""`toolcrib config` says what is in force and where each value comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import invoke
from toolcrib.project import project_schema

PROJECT = """
tools: {modules: [cli_tools]}
policy: policy.yaml
serve:
  port: 9000
limits:
  call: {timeout: 30}
mcp_servers:
  shop:
    url: https://user:s3cret@shop.example/mcp?key=s3cret
    headers: {Authorization: Bearer s3cret}
anchors: {url: "https://user:s3cret@anchors.example/x?key=s3cret"}
"""


@pytest.fixture
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a project."""
    monkeypatch.delenv("TOOLCRIB_PROJECT", raising=False)
    (folder / "toolcrib.yaml").write_text(PROJECT, "utf-8")
    (folder / "policy.yaml").write_text("version: 1\nrules: []\n", "utf-8")
    return folder


def shown(*arguments: str | Path, **env: str) -> dict[str, Any]:
    """The settings that `config show` prints, by their keys."""
    done = invoke("config", "show", "--json", *arguments, env=env)
    assert done.exit_code == 0, done.stderr
    assert "s3cret" not in done.stdout
    return {row["key"]: row for row in json.loads(done.stdout)["settings"]}


def test_every_value_has_its_origin(project: Path) -> None:
    """A flag, a line of the file, the environment, the default."""
    rows = shown("--policy", project / "policy.yaml", TOOLCRIB_URL="https://crib.example")

    assert rows["policy"]["origin"] == "flag --policy"
    assert rows["serve.port"] == {"key": "serve.port", "value": 9000, "origin": "toolcrib.yaml:5"}
    assert rows["limits.call.timeout"]["origin"] == "toolcrib.yaml:7"
    assert rows["client.url"]["origin"] == "environment TOOLCRIB_URL"
    assert rows["serve.host"] == {"key": "serve.host", "value": "127.0.0.1", "origin": "default"}
    assert rows["limits.principal.concurrent_calls"]["value"] == 200


def test_no_secret_is_shown(project: Path) -> None:
    """Addresses may hold them, and so may all of a server's entry."""
    rows = shown(TOOLCRIB_OWNER_TOKEN="s3cret-token")

    assert rows["anchors.url"]["value"] == "https://anchors.example/x?..."
    assert rows["mcp_servers.shop"]["value"] == "set"
    assert rows["owner token"] == {
        "key": "owner token",
        "value": "set",
        "origin": "environment TOOLCRIB_OWNER_TOKEN",
    }


def test_it_reads_well(project: Path) -> None:
    """A line each: the key, the value and the origin."""
    done = invoke("config", "show")

    assert f"project: {project / 'toolcrib.yaml'}" in done.stdout
    assert "  9000  (toolcrib.yaml:5)" in done.stdout
    assert "s3cret" not in done.stdout


def test_a_set_key_names_its_flag(project: Path) -> None:
    """It is no line of the file."""
    done = invoke("--set", "serve.port=9001", "config", "show", "--json")
    [row] = [row for row in json.loads(done.stdout)["settings"] if row["key"] == "serve.port"]

    assert row == {"key": "serve.port", "value": 9001, "origin": "flag --set serve.port"}


def test_the_schema_is_printed(folder: Path) -> None:
    """For editors that complete and check."""
    assert json.loads(invoke("config", "schema").stdout) == project_schema()


def test_check_loads_what_would_be_served(project: Path) -> None:
    """A module that cannot be imported, and a rule for no tool, are faults."""
    (project / "toolcrib.yaml").write_text(
        "tools: {modules: [cli_tools]}\npolicy: policy.yaml\n", "utf-8"
    )
    good = invoke("config", "check")
    assert (good.exit_code, good.stdout.strip()) == (0, f"{project / 'toolcrib.yaml'}: ok")
    (project / "policy.yaml").write_text("version: 1\nrules: [{deny: shuot}]\n", "utf-8")
    assert "shuot" in (bad := invoke("config", "check")).stderr
    assert bad.exit_code == 1
    (project / "toolcrib.yaml").write_text("tools: {modules: [gone_module]}\n", "utf-8")
    assert "gone_module" in invoke("config", "check").stderr


def test_check_without_a_project_says_so(folder: Path) -> None:
    """There is nothing to check."""
    done = invoke("config", "check")
    assert done.exit_code == 1
    assert "there is no toolcrib.yaml" in done.stderr
