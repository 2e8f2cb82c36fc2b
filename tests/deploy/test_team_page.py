"""The page on running it for a team tells commands, keys and files that there are."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.cli.test_help import LEAVES
from toolcrib.project import read_project

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "team.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    """The code blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def commands() -> list[list[str]]:
    """Every toolcrib command of the page: in blocks, in lines, and in the containers."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    written = [*lines, *re.findall(r"`(toolcrib [^`]*)`", PAGE)]
    calls = [
        re.search(r"\btoolcrib ((?:[a-z]+ ?){1,2}.*)", line.partition("#")[0]) for line in written
    ]
    words = [shlex.split(call[1]) for call in calls if call]
    return [
        each for each in words if " ".join(each[:2]) in LEAVES or each[0] in LEAVES or is_new(each)
    ]


def is_new(words: list[str]) -> bool:
    """Whether it looks like a command, so that a misspelt one is not passed over."""
    return not words[0].startswith("-") and "/" not in words[0] and len(words) > 1


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_and_option_is_there(words: list[str]) -> None:
    """A reader who pastes it gets no usage error."""
    name = " ".join(words[:2]) if " ".join(words[:2]) in LEAVES else words[0]
    assert name in LEAVES, f"there is no toolcrib {name}"
    known = {option for each in LEAVES[name].params for option in each.opts}

    assert {word for word in words if word.startswith("--")} <= known


def project_blocks() -> list[str]:
    return [block for block in blocks("yaml") if not block.startswith("# Prometheus")]


@pytest.mark.parametrize("block", project_blocks(), ids=lambda block: block.split(":")[0])
def test_every_piece_of_a_project_file_is_valid(block: str, tmp_path: Path) -> None:
    """A reader who pastes it into toolcrib.yaml gets no fault."""
    file = tmp_path / "toolcrib.yaml"
    file.write_text(block, "utf-8")

    assert read_project(file).file == file


def test_the_alerts_ask_for_metrics_that_there_are() -> None:
    """An alert on a name that nobody exports never rings."""
    [alerts] = [block for block in blocks("yaml") if block.startswith("# Prometheus")]
    described = (ROOT / "docs" / "operations.md").read_text("utf-8")
    names = set(re.findall(r"\btoolcrib_\w+", " ".join(rule["expr"] for rule in rules(alerts))))

    assert len(names) >= 5
    assert {name for name in names if f"`{name}`" not in described} == set()


def rules(alerts: str) -> list[dict[str, str]]:
    return [rule for group in yaml.safe_load(alerts)["groups"] for rule in group["rules"]]


def test_every_file_of_the_deployment_is_there() -> None:
    """The page names files of the repository."""
    named = set(re.findall(r"deploy/[\w./-]*\w", PAGE))
    made_by_the_reader = {"deploy/my-project", "deploy/toolcrib.env"}

    assert {name for name in named - made_by_the_reader if not (ROOT / name).exists()} == set()
