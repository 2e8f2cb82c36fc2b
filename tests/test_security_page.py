"""docs/security.md: every line of the threat model names a test that is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
ADVERSARIES = (
    "Another user of the machine",
    "A page in the browser",
    "A stranger on the network",
    "A caller",
    "An approver",
    "A mounted server",
    "A model's output",
    "A stolen database",
)
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_every_adversary_has_a_section_with_rows(adversary: str) -> None:
    """What each one can and cannot do is told, line by line."""
    section = PAGE.partition(f"### {adversary}\n")[2].partition("\n### ")[0]

    assert section.count("`tests/") >= 2


def test_every_row_names_its_test() -> None:
    """A claim without a test is a wish."""
    model = PAGE.partition("## Threat model")[2].partition("\n## ")[0]
    rows = [line for line in model.splitlines() if line.startswith("| ")]
    headings = ("| can ", "| asset ")
    assets = {row for row in model.partition("### Another")[0].splitlines()}
    claims = [row for row in rows if not row.startswith(headings) and row not in assets]

    assert [row for row in claims if "`tests/" not in row] == []
    assert len(claims) >= 30


@pytest.mark.parametrize(("path", "name"), TESTS)
def test_the_tests_are_there(path: str, name: str) -> None:
    """A test that was renamed or removed leaves its claim without a proof."""
    assert (ROOT / path).is_file()
    assert name in functions_of(path)
