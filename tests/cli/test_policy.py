"""`toolcrib policy`: data on stdout, words on stderr, and exit codes that scripts can use."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.cli.test_main import run
from toolcrib.cli.app import app

POLICY = """\
version: 1
rules:
  - id: sources
    allow: read_file
    arguments: {/path: {glob: "src/**"}}
  - id: hosts
    deny: "*"
    source: host
"""
RISKY = POLICY + "  - allow: run\n    arguments: {/command: {glob: 'ls*'}}\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY, "utf-8")
    return file


@pytest.fixture
def risky(tmp_path: Path) -> Path:
    file = tmp_path / "risky.yaml"
    file.write_text(RISKY, "utf-8")
    return file


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["policy", *map(str, arguments)])


def test_a_good_file_passes(policy: Path) -> None:
    """A valid policy gives status 0 and a line on stdout."""
    done = invoke("check", policy)

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{policy}: 2 rules, 0 warnings\n"


def test_a_bad_file_fails_with_its_line(tmp_path: Path) -> None:
    """A fault gives status 1 and file, line and cure on stderr, nothing on stdout."""
    file = tmp_path / "bad.yaml"
    file.write_text("version: 1\nruels: []\n", "utf-8")

    for command in (["check", file], ["explain", file, "--tool", "x"]):
        done = invoke(*command)

        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == f"{file}:2: unknown key 'ruels'; did you mean 'rules'?\n"


def test_warnings_are_words_and_fail_only_when_asked(risky: Path) -> None:
    """A risky rule is named on stderr with its line; `--strict` makes it a failure."""
    done = invoke("check", risky)
    strict = invoke("check", risky, "--strict")

    assert (done.exit_code, strict.exit_code) == (0, 1)
    assert f'{risky}:9: warning: rule "rule 3": /command' in done.stderr
    assert done.stdout == f"{risky}: 3 rules, 1 warnings\n"


def test_check_gives_json(risky: Path) -> None:
    """`--json` gives the same facts to a program."""
    report = json.loads(invoke("check", risky, "--json").stdout)

    assert report["file"] == str(risky)
    assert report["rules"] == 3
    assert [warning["rule"] for warning in report["warnings"]] == ["rule 3"]


@pytest.mark.parametrize(
    ("options", "effect", "rule"),
    [
        (["--tool", "read_file", "--arguments", '{"path": "src/a"}'], "allow", "sources"),
        (["--tool", "read_file", "--arguments", '{"path": "src/../a"}'], "ask", "unmatched"),
        (["--tool", "read_file"], "ask", "unmatched"),
        (["--tool", "other", "--read-only"], "allow", "unmatched"),
        (["--tool", "other", "--read-only", "--requires-approval"], "ask", "requires_approval"),
        (["--tool", "other", "--source", "host"], "deny", "hosts"),
        (["--tool", "other", "--place", "sandbox"], "ask", "unmatched"),
    ],
)
def test_explain_says_what_would_be_decided(
    policy: Path, options: list[str], effect: str, rule: str
) -> None:
    """Every option takes part, and the answer names verdict and rule, as text and as JSON."""
    text = invoke("explain", policy, *options)
    report = json.loads(invoke("explain", policy, *options, "--json").stdout)

    assert (text.exit_code, text.stderr) == (0, "")
    assert text.stdout.startswith(f"{effect}: ")
    assert f"decided by: {rule}\n" in text.stdout
    assert (report["verdict"]["effect"], report["verdict"]["rule"]) == (effect, rule)
    assert [finding["rule"] for finding in report["findings"]] == ["sources", "hosts"]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--tool", "x", "--arguments", "{broken"],
        ["--tool", "x", "--arguments", "[1]"],
        ["--tool", "x", "--place", "moon"],
    ],
)
def test_wrong_options_are_a_usage_error(policy: Path, options: list[str]) -> None:
    """What the person typed wrongly is status 2, with nothing on stdout."""
    done = invoke("explain", policy, *options)

    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.wire
def test_explain_suggests_the_tool_that_a_rule_names(policy: Path) -> None:
    """Newcomers B: what is decided about a misspelt name says nothing about the real one."""
    misspelt = invoke("explain", policy, "--tool", "read_fil")
    right = invoke("explain", policy, "--tool", "read_file")

    assert "no rule names 'read_fil'; did you mean 'read_file'?" in misspelt.stderr
    assert right.stderr == ""


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    """The real process ends with status 1 and no traceback."""
    missing = tmp_path / "missing.yaml"

    done = run("policy", "check", str(missing))

    assert done.returncode == 1
    assert done.stderr == f"{missing}: cannot be read: No such file or directory\n"


def test_a_policy_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Text from the file is printed without its control characters and markup."""
    file = tmp_path / "evil.yaml"
    reason = json.dumps("\x1b[2J[red]x[/red]")
    file.write_text(f"version: 1\nrules: [{{deny: '*', reason: {reason}}}]\n", "utf-8")

    done = invoke("explain", file, "--tool", "x")

    assert "\\u001b[2J[red]x[/red]" in done.stdout
    assert "\x1b" not in done.stdout


def test_the_documentation_shows_the_real_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What docs/policy.md shows for its own policy is what the command prints."""
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(page.split('"""')[1].lstrip(), "utf-8")

    done = invoke(
        "explain", "policy.yaml", "--tool", "write_file", "--arguments", '{"path": "src/../.env"}'
    )

    assert f"```text\n{done.stdout}```" in page


TOOLS = """\
from toolcrib import tool


@tool
def drop_table(name: str) -> str:
    \"\"\"Drop a table.\"\"\"
    return name
"""


def test_rules_are_compared_with_the_real_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tools, a deny of a misspelt name is an error with its line and the name meant."""
    (tmp_path / "shop_tools.py").write_text(TOOLS, "utf-8")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\nrules:\n  - deny: drop_tabel\n  - deny: drop_*\n", "utf-8")

    alone = invoke("check", file)
    done = invoke("check", file, "--host-tools-module", "shop_tools")
    report = json.loads(invoke("check", file, "--host-tools-module", "shop_tools", "--json").stdout)

    assert alone.exit_code == 0
    assert done.exit_code == 1
    assert done.stderr == (
        f"{file}:3: error: rule \"rule 1\": no tool is named 'drop_tabel'; "
        "did you mean 'drop_table'?\n"
    )
    assert done.stdout == f"{file}: 2 rules, 1 errors, 0 warnings\n"
    assert [error["rule"] for error in report["errors"]] == ["rule 1"]


def test_rules_are_compared_with_the_arguments_of_the_real_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tools, a deny on a misspelt argument is an error; an allow on one is a warning."""
    (tmp_path / "shop_tools.py").write_text(TOOLS, "utf-8")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "policy.yaml"
    rules = "".join(
        f"  - {effect}: drop_table\n    arguments: {{/{argument}: users}}\n"
        for effect, argument in (("deny", "nam"), ("allow", "nam"), ("deny", "name"))
    )
    file.write_text(f"version: 1\nrules:\n{rules}", "utf-8")

    done = invoke("check", file, "--host-tools-module", "shop_tools")

    assert done.exit_code == 1
    told = "'drop_table' has no argument at /nam; did you mean 'name'?\n"
    assert done.stderr == (
        f'{file}:3: error: rule "rule 1": {told}{file}:5: warning: rule "rule 2": {told}'
    )
    assert done.stdout == f"{file}: 3 rules, 1 errors, 1 warnings\n"


PAY_TOOLS = """\
from typing import Annotated

from pydantic import Field

from toolcrib import tool


@tool
def pay(
    amount: int, pin: Annotated[str | None, Field(json_schema_extra={"writeOnly": True})] = None
) -> str:
    '''Pay.'''
    return "paid"
"""


def test_a_preview_says_which_past_calls_a_draft_would_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same operation as on a server, on the store and the policy of the project."""
    (tmp_path / "pay_tools.py").write_text(PAY_TOOLS, "utf-8")
    (tmp_path / "policy.yaml").write_text("version: 1\nunmatched: allow\n", "utf-8")
    (tmp_path / "toolcrib.yaml").write_text(
        "tools: {modules: [pay_tools]}\npolicy: policy.yaml\nstore: crib.sqlite3\n", "utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for arguments in ('{"amount": 5}', '{"amount": 50}', '{"amount": 1, "pin": "1234"}'):
        call = ["tools", "call", "pay", "--arguments", arguments]
        assert CliRunner().invoke(app, call).exit_code == 0
    (tmp_path / "draft.yaml").write_text(
        "version: 1\nunmatched: allow\nrules:\n"
        "  - {id: large, ask: pay, arguments: {/amount: {min: 50}}}\n"
        "  - {id: pins, deny: pay, arguments: {/pin: '1234'}}\n",
        "utf-8",
    )

    done = invoke("preview", "--draft", "draft.yaml")
    assert (done.exit_code, done.stderr.count("cannot be told")) == (0, 1)
    first = done.stdout.splitlines()[0]
    assert first == "3 past calls: 1 would have changed, 1 would not, 1 cannot be told"
    assert "allow -> ask" in done.stdout

    data = invoke("preview", "--rule", "deny: pay", "--json")
    assert json.loads(data.stdout)["changed"] == 3
    assert invoke("preview").exit_code == 2
