"""Every command finds `toolcrib.yaml` from its folder upwards; flags and the environment win."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import invoke

POLICY = """
version: 1
rules:
  - {deny: shout, arguments: {/text: "no"}, reason: too loud}
  - {allow: "*"}
"""
PROJECT = """
tools: {modules: [cli_tools]}
policy: policy.yaml
store: crib.sqlite3
"""


@pytest.fixture
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose commands run in a folder below it."""
    monkeypatch.delenv("TOOLCRIB_PROJECT", raising=False)
    (folder / "toolcrib.yaml").write_text(PROJECT, "utf-8")
    (folder / "policy.yaml").write_text(POLICY, "utf-8")
    inner = folder / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    return folder


def test_the_policy_of_the_project_is_in_force(project: Path) -> None:
    """Newcomers 5: a policy that lies beside the tools is not passed over in silence."""
    done = invoke("tools", "call", "shout", "text=no")

    assert done.exit_code == 3
    assert "too loud" in done.stderr


def test_commands_on_a_store_use_the_store_of_the_project(project: Path) -> None:
    """`approvals`, `sessions` and `audit` need no option in a project."""
    assert invoke("tools", "call", "shout", "text=hi").exit_code == 4
    assert (project / "crib.sqlite3").is_file()
    assert "shout" in invoke("approvals", "list").stdout
    assert len(json.loads(invoke("sessions", "list", "--json").stdout)) == 1
    assert invoke("audit", "verify").exit_code == 0
    assert invoke("grants", "list").exit_code == 0


def test_a_flag_overrides_the_file(project: Path) -> None:
    """The command line has the last word."""
    (project / "lax.yaml").write_text("version: 1\nrules: [{allow: '*'}]\n", "utf-8")
    done = invoke("tools", "call", "shout", "text=no", "--policy", project / "lax.yaml")

    assert done.exit_code == 4
    assert "waits for approval" in done.stderr


def test_a_server_of_the_environment_comes_before_the_store(project: Path) -> None:
    """Whoever asks a server is shown what that principal may see, not what is in the file."""
    assert invoke("tools", "call", "shout", "text=hi").exit_code == 4
    remote = {"TOOLCRIB_URL": "http://127.0.0.1:9", "TOOLCRIB_TOKEN": "t"}
    done = invoke("approvals", "list", env=remote)

    assert done.exit_code == 1
    assert "shout" not in done.stdout


def test_one_key_is_set_for_one_command(project: Path) -> None:
    """Keys without a flag of their own can be set too."""
    done = invoke("--set", "tools.modules=[]", "tools", "list")

    assert done.exit_code == 2
    assert "no tools" in done.stderr


def test_the_project_is_left_out(project: Path) -> None:
    """`--no-project` is as if there were no file."""
    done = invoke("--no-project", "tools", "list")

    assert done.exit_code == 2
    assert "no tools" in done.stderr


@pytest.mark.parametrize("by_variable", [True, False])
def test_another_project_is_named(
    project: Path, tmp_path_factory: pytest.TempPathFactory, by_variable: bool
) -> None:
    """A file that is named wins over the one that would be found."""
    other = tmp_path_factory.mktemp("other") / "mine.yaml"
    other.write_text("tools: {modules: [nowhere_to_be_found]}\n", "utf-8")
    arguments = () if by_variable else ("--project", other)
    done = invoke(
        *arguments, "tools", "list", env={"TOOLCRIB_PROJECT": str(other)} if by_variable else None
    )

    assert done.exit_code == 1
    assert "nowhere_to_be_found" in done.stderr


def test_a_file_of_another_user_is_not_used(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write to a folder above must not choose the code that runs here."""
    file = project / "toolcrib.yaml"
    owner = file.stat().st_uid
    if owner == 0:
        os.chown(file, 4321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    done = invoke("tools", "list")

    assert done.exit_code == 1
    assert "belongs to another user" in done.stderr
    assert invoke("--project", file, "tools", "list").exit_code == 0


@pytest.mark.parametrize("writable", ["", "toolcrib.yaml"])
def test_a_file_that_everybody_can_write_is_not_used(project: Path, writable: str) -> None:
    """In a folder like /tmp anybody can put a module beside the file, and have it imported."""
    (project / writable).chmod(0o1777)
    done = invoke("tools", "list")

    assert done.exit_code == 1
    assert "can be written by every user" in done.stderr
    assert invoke("--project", project / "toolcrib.yaml", "tools", "list").exit_code == 0


def test_a_link_in_a_folder_of_another_user_is_not_used(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to a file of one's own would have the modules of the link's folder imported."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "toolcrib.yaml").symlink_to(project / "toolcrib.yaml")
    owner = folder.stat().st_uid
    if owner == 0:
        os.chown(folder, 4321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    monkeypatch.chdir(folder)
    done = invoke("tools", "list")

    assert done.exit_code == 1
    assert "belongs to another user" in done.stderr


def test_a_fault_ends_every_command_with_its_line(project: Path) -> None:
    """A project that cannot be read is not taken for none: its policy would not be in force."""
    (project / "toolcrib.yaml").write_text("polcy: policy.yaml\n", "utf-8")
    for command in (("tools", "list"), ("approvals", "list"), ("serve",), ("config", "show")):
        done = invoke(*command)
        assert done.exit_code == 1, command
        assert "toolcrib.yaml:1: polcy: unknown key 'polcy'; did you mean 'policy'?" in done.stderr


def test_help_does_not_read_the_project(project: Path) -> None:
    """Help is there when the file is broken."""
    (project / "toolcrib.yaml").write_text("polcy: policy.yaml\n", "utf-8")
    assert invoke("serve", "--help").exit_code == 0
    assert invoke("tools", "call", "--help").exit_code == 0


def test_help_cannot_be_a_value(project: Path) -> None:
    """Else a command would run without the project, and without its policy."""
    done = invoke("tools", "call", "shout", "--arguments", "--help")

    assert done.exit_code == 2
    assert "--help cannot be the value" in done.stderr


def test_commands_without_a_project_ignore_it(project: Path) -> None:
    """A broken file does not stop `support` or `init`."""
    (project / "toolcrib.yaml").write_text("polcy: policy.yaml\n", "utf-8")
    assert invoke("support", "--json").exit_code == 0


def test_doctor_reports_the_project(project: Path) -> None:
    """It goes on with the other checks."""
    checks = json.loads(invoke("doctor", "--json").stdout)
    assert {"name": "project", "level": "ok", "text": str(project / "toolcrib.yaml")} in checks
    (project / "toolcrib.yaml").write_text("polcy: policy.yaml\n", "utf-8")
    done = invoke("doctor", "--json")
    [found] = [check for check in json.loads(done.stdout) if check["name"] == "project"]
    assert (done.exit_code, found["level"]) == (1, "failure")
    assert "did you mean 'policy'" in found["text"]


class TestWhichServer:
    """Flags, then TOOLCRIB_URL, then `client.url`, then what the project has on this machine."""

    @pytest.fixture(autouse=True)
    def nobody_listens(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOOLCRIB_TOKEN", "token-of-the-environment")

    def test_the_variable_beats_the_file(self, project: Path) -> None:
        """Whoever sets it means this shell."""
        done = invoke("approvals", "list", env={"TOOLCRIB_URL": "http://127.0.0.1:9"})
        assert done.exit_code == 1
        assert "127.0.0.1:9" in done.stderr

    def test_a_flag_beats_the_variable(self, project: Path) -> None:
        """What is typed wins."""
        assert invoke("tools", "call", "add", "a=1", "b=2").exit_code == 0
        done = invoke(
            "approvals",
            "list",
            "--store",
            project / "crib.sqlite3",
            env={"TOOLCRIB_URL": "http://127.0.0.1:9"},
        )
        assert done.exit_code == 0, done.stderr

    def test_the_address_of_the_file_beats_its_store(self, project: Path) -> None:
        """With `client.url`, commands ask the server."""
        done = invoke("--set", "client.url=http://127.0.0.1:9", "approvals", "list")
        assert done.exit_code == 1
        assert "127.0.0.1:9" in done.stderr

    def test_the_token_of_the_project_goes_to_its_server_only(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another server must not see it."""
        monkeypatch.delenv("TOOLCRIB_TOKEN", raising=False)
        secret = project / "secret"
        secret.write_text("tc_secret", "utf-8")
        secret.chmod(0o600)
        (project / "toolcrib.yaml").write_text(
            f"{PROJECT}client: {{url: 'https://own.example', token_file: secret}}\n", "utf-8"
        )
        done = invoke("approvals", "list", env={"TOOLCRIB_URL": "https://other.example"})
        assert done.exit_code == 1
        assert "no token for https://other.example" in done.stderr


class TestNoOptionIsIgnored:
    """F14: what is accepted does something; what cannot is refused with a sentence."""

    @pytest.mark.parametrize(
        "flags",
        [
            ("--host", "0.0.0.0"),
            ("--port", "99"),
            ("--token-file", "nofile"),
            ("--allow-origin", "https://x"),
            ("--approve-by-elicitation", "always"),
        ],
    )
    def test_stdio_refuses_options_of_http(self, project: Path, flags: tuple[str, ...]) -> None:
        """They would say nothing."""
        done = invoke("serve", "--stdio", *flags)
        assert done.exit_code == 2
        assert f"{flags[0]}: for HTTP only" in done.stderr

    @pytest.mark.parametrize("command", ["serve", "acp"])
    def test_instructions_need_a_model(self, project: Path, command: str) -> None:
        """Nobody would read them."""
        done = invoke(command, "--instructions", "Be kind.")
        assert done.exit_code == 2
        assert "instructions are for a model" in done.stderr

    def test_tools_list_takes_a_policy(self, project: Path) -> None:
        """Newcomers 15: the option that the page names is there."""
        done = invoke("tools", "list", "--policy", project / "policy.yaml")
        assert done.exit_code == 0


class TestPolicy:
    """A policy is held against the tools of the project."""

    def test_a_rule_for_a_misspelt_tool_is_an_error(self, project: Path) -> None:
        """Newcomers C: a deny of a misspelt name would deny nothing."""
        (project / "policy.yaml").write_text("version: 1\nrules: [{deny: shuot}]\n", "utf-8")
        done = invoke("policy", "check")
        assert done.exit_code == 1
        assert "shuot" in done.stderr
        assert "shout" in done.stderr

    def test_it_is_refused_at_start_too(self, project: Path) -> None:
        """Nothing runs under a policy that does not fit."""
        (project / "policy.yaml").write_text("version: 1\nrules: [{deny: shuot}]\n", "utf-8")
        done = invoke("tools", "call", "shout", "text=hi")
        assert done.exit_code == 1
        assert "shuot" in done.stderr

    def test_explain_knows_the_tool(self, project: Path) -> None:
        """What the tool says of itself need not be typed, and a misspelt name is told."""
        (project / "policy.yaml").write_text("version: 1\nrules: []\n", "utf-8")
        asks = json.loads(invoke("policy", "explain", "--tool", "shout", "--json").stdout)
        assert asks["verdict"]["effect"] == "ask"
        assert "did you mean 'shout'?" in invoke("policy", "explain", "--tool", "shuot").stderr


class TestModel:
    """`run` and `sessions resume` have the model of the project."""

    def test_run_needs_no_option(self, project: Path) -> None:
        """The model, its instructions, the tools, the policy and the store are of the file."""
        (project / "toolcrib.yaml").write_text(
            f"{PROJECT}model: {{adapter: 'cli_model:again'}}\ninstructions: Be brief.\n", "utf-8"
        )
        done = invoke("run", "How much was it?")
        assert (done.exit_code, done.stdout.strip()) == (0, "It was 5."), done.stderr

    def test_a_flag_replaces_the_model(self, project: Path) -> None:
        """Whatever form the file has."""
        (project / "toolcrib.yaml").write_text(f"{PROJECT}model: {{openai: gpt-5.1}}\n", "utf-8")
        done = invoke("run", "How much was it?", "--adapter", "cli_model:again")
        assert (done.exit_code, done.stdout.strip()) == (0, "It was 5."), done.stderr

    def test_no_model_is_told(self, project: Path) -> None:
        """With the key that would name one."""
        done = invoke("run", "How much was it?")
        assert done.exit_code == 2
        assert "a model in toolcrib.yaml" in " ".join(done.stderr.split())


def test_tokens_are_those_of_the_project(project: Path) -> None:
    """The command that makes them and the server that checks them read one file."""
    (project / "toolcrib.yaml").write_text("serve: {tokens: tokens.json}\n", "utf-8")
    assert invoke("tokens", "create", "ann", "--role", "caller").exit_code == 0
    assert (project / "tokens.json").is_file()
    assert "ann" in invoke("tokens", "list").stdout
