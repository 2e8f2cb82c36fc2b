"""The chart of the demo, drawn by the program that the scenario has run."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolcrib.demo.story import DATA, SCENARIO

pytestmark = pytest.mark.slow

VALUES = {
    "{{ market.results.0.text | json }}": json.dumps("Forecast: 7.40 EUR per kilo"),
    "{{ policy.results.0.text | json }}": json.dumps("six weeks of sales, ten weeks of sales"),
    "{{ stock.kilos }}": "214",
}


def test_the_chart_has_a_title_and_starts_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks: what is drawn is said above it, and no axis exaggerates a change."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    scenario: Any = yaml.safe_load(Path(SCENARIO).read_text("utf-8"))
    [call] = scenario["turns"][0]["steps"][1]["calls"]
    program: str = call["arguments"]["code"]
    for name, value in VALUES.items():
        program = program.replace(name, value)
    saved: list[str] = []

    def save(name: str, **_: object) -> None:
        saved.append(name)

    def keep_open(_: object) -> None:
        """Leave the figure to be looked at."""

    def find_sales(_: str) -> list[str]:
        return [str(DATA / "sales.csv")]

    monkeypatch.setattr(plt, "savefig", save)
    monkeypatch.setattr(plt, "close", keep_open)
    monkeypatch.setattr(glob, "glob", find_sales)
    exec(program, {})

    axes: Any = plt.gca()
    assert saved == ["/mnt/data/kenya.png"]
    assert "weekly sales" in axes.get_title()
    assert axes.get_ylim()[0] == 0
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("week", "kilos")
    monkeypatch.undo()
    plt.close("all")
