"""The architecture page is a map of the code that is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "toolcrib"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
MODULES = sorted(set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", PAGE)))


def contract_ranks() -> dict[str, int]:
    """The packages of the layer contract, each with the number of its layer from the ground."""
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (layers,) = [
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    return {
        name.strip(): rank
        for rank, layer in enumerate(reversed(layers))
        for name in layer.split("|")
    }


def mapped_packages() -> list[str]:
    """The packages of the page's map, lowest first."""
    table = PAGE.split("## The map")[1].split("## Where is")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return [name.rstrip("/") for row in rows for name in re.findall(r"`([a-z_]+/?)`", row)]


def test_the_page_names_modules() -> None:
    """The rule below would hold for a page that names nothing."""
    assert len(MODULES) > 50


@pytest.mark.parametrize("module", MODULES)
def test_every_module_that_the_page_names_exists(module: str) -> None:
    """A reader who follows the page finds the file; `scripts/walks.py` is outside the package."""
    assert (PACKAGE / module).exists() or (ROOT / module).exists()


def test_the_map_has_every_package_in_the_order_of_the_contract() -> None:
    """The page and the lint check show the same order, from the ground up."""
    ranks = contract_ranks()
    mapped = mapped_packages()

    assert set(mapped) == ranks.keys() - {"_version", "_lazy", "context"}
    assert [ranks[name] for name in mapped] == sorted(ranks[name] for name in mapped)
