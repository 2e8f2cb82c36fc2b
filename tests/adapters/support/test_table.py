"""Support tables: how their text becomes cells, and which texts are refused."""

import pytest

from toolcrib.adapters.support.table import PROVIDERS, Cell, KindSupport, support_table

NOTES = {"a": "only on Mondays", "b": "it cannot; leave it out", "c": ("x", "y")}


def table(*rows: str) -> KindSupport:
    text = "\n".join(["    openai responses vertex", *rows])
    return support_table(text, notes=NOTES, absent={"groq": "gone; wait"}, elsewhere="none; go")


def test_every_form_of_a_cell() -> None:
    """A yes, a limit, a yes with a note, the only values, and a no with its reason."""
    support = table("(tool) yes +a yes", "size <=5 +c -b")

    assert support.cell("openai") == Cell(True)
    assert support.cell("openai-responses") == Cell(True, "only on Mondays")
    assert support.cell("openai", "size") == Cell(True, most=5)
    assert support.cell("openai-responses", "size") == Cell(True, only=("x", "y"))
    assert support.cell("google-vertex", "size") == Cell(False, "it cannot; leave it out")


def test_providers_without_a_column_have_no_such_tool() -> None:
    """Each for its own reason where there is one; Mistral has none of any kind."""
    support = table("(tool) yes yes yes")

    assert set(support.tool) == set(PROVIDERS)
    assert support.cell("groq") == Cell(False, "gone; wait")
    assert support.cell("xai") == Cell(False, "none; go")
    assert "chat API" in support.cell("mistral").note


@pytest.mark.parametrize("row", ["size yes yes", "size yes yes yes yes"])
def test_a_row_has_a_cell_for_every_column(row: str) -> None:
    """A cell that is missing would move all others to another provider."""
    with pytest.raises(ValueError, match=r"zip\(\)"):
        table("(tool) yes yes yes", row)


@pytest.mark.parametrize("token", ["maybe", "+z", "-", "no"])
def test_a_cell_must_be_of_a_known_form(token: str) -> None:
    """A note that does not exist, or a word of its own, is a mistake in the table."""
    with pytest.raises(ValueError, match="is no cell of a support table"):
        table(f"(tool) {token} yes yes")
