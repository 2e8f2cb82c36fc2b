"""The mutants that a sample draws."""

import json
from pathlib import Path

from scripts.mutant_sample import names, sample


def test_a_sample_is_drawn_from_what_was_made_and_is_always_the_same(tmp_path: Path) -> None:
    """Two runs of a sample measure the same mutants, so their scores can be compared."""
    made = {f"pkg.mod.x_{number}": None for number in range(50)}
    (tmp_path / "mod.py.meta").write_text(json.dumps({"exit_code_by_key": made}))

    found = names(tmp_path)
    drawn = sample(found, 10, [])

    assert sorted(made) == found
    assert drawn == sample(found, 10, [])
    assert len(set(drawn)) == 10
    assert set(drawn) <= set(made)


def test_a_sample_keeps_to_its_patterns() -> None:
    """A pattern narrows what is drawn; fewer than asked for are all drawn."""
    found = ["toolcrib.calls.a", "toolcrib.calls.b", "toolcrib.session.c"]

    assert sorted(sample(found, 10, ["toolcrib.calls.*"])) == found[:2]
