"""`toolcrib support`: the matrix for people and for programs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.cli.test_main import run
from toolcrib.adapters.support import MATRIX, PROVIDERS
from toolcrib.cli.app import app


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["support", *map(str, arguments)])


@pytest.mark.wire
def test_without_options_everything_is_in_one_table() -> None:
    """Every provider is a column and every option a row, in a pipe too."""
    done = run("support")

    assert (done.returncode, done.stderr) == (0, "")
    head = done.stdout.splitlines()[0]
    assert all(provider in head for provider in PROVIDERS)
    for kind, row in MATRIX.items():
        assert f"\n{kind} " in done.stdout
        assert all(f" {option} " in done.stdout for option in row.options)


def test_one_provider_is_told_with_reasons() -> None:
    """Whoever asks about one provider learns why not; of a tool that it lacks only that."""
    done = invoke("--provider", "anthropic")

    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert any(
        "web_search domain_filter.both" in line and "give one list" in line for line in lines
    )
    assert any("file_search" in line and "no: " in line for line in lines)
    assert not any("file_search filters" in line for line in lines)
    assert all(line.startswith("anthropic") for line in lines)


def test_one_kind_is_told_for_all_providers() -> None:
    """Whoever asks about one kind sees every provider."""
    done = invoke("--kind", "memory")

    assert [line.split()[:3] for line in done.stdout.splitlines()] == [
        [provider, "memory", "yes" if provider == "anthropic" else "no:"] for provider in PROVIDERS
    ]


def test_json_has_every_cell() -> None:
    """A program gets kind, option, provider and what is known."""
    cells = json.loads(invoke("--json").stdout)

    rows = sum(1 + len(row.options) for row in MATRIX.values())
    assert len(cells) == rows * len(PROVIDERS)
    one = json.loads(invoke("--json", "--kind", "web_search", "--provider", "xai").stdout)
    assert one[1] == {
        "kind": "web_search",
        "option": "domain_filter.allowed",
        "provider": "xai",
        "supported": True,
        "note": "",
        "most": 5,
        "only": [],
    }


@pytest.mark.wire
@pytest.mark.parametrize(("option", "wrong"), [("--provider", "acme"), ("--kind", "teleport")])
def test_what_is_unknown_is_wrong_use(option: str, wrong: str) -> None:
    """Status 2, and stderr says what is known."""
    done = run("support", option, wrong)

    assert (done.returncode, done.stdout) == (2, "")
    assert wrong in done.stderr
    assert "web_search" in done.stderr or "anthropic" in done.stderr


def test_the_page_of_the_documentation_is_written_from_the_data(tmp_path: Path) -> None:
    """What stands between the marks is replaced; a page without marks fails with status 1."""
    page = tmp_path / "page.md"
    page.write_text(
        "Top\n<!-- support matrix: begin -->\nold\n<!-- support matrix: end -->\nEnd\n", "utf-8"
    )

    assert invoke("--update", page).exit_code == 0
    text = page.read_text("utf-8")
    assert text.startswith("Top\n")
    assert text.endswith("\nEnd\n")
    assert "### tool_search" in text
    assert "old" not in text.split("\n")

    page.write_text("nothing", "utf-8")
    done = invoke("--update", page)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "the page needs the lines" in done.stderr
    assert page.read_text("utf-8") == "nothing"
