"""The package's names load on first use, and importing it loads nothing heavy."""

import subprocess
import sys
from dataclasses import is_dataclass

import pytest

import toolcrib.approval


@pytest.mark.parametrize("name", toolcrib.approval.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    """What `__all__` lists is there."""
    assert getattr(toolcrib.approval, name) is not None


FACTS = [
    name for name in toolcrib.approval.__all__ if is_dataclass(getattr(toolcrib.approval, name))
]


@pytest.mark.parametrize("name", FACTS)
def test_facts_do_not_change(name: str) -> None:
    """What was asked, decided and granted cannot be altered behind the record's back."""
    fact = getattr(toolcrib.approval, name)

    assert fact.__dataclass_params__.frozen
    assert "__slots__" in vars(fact)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Looking for a name that is not there fails as for any module."""
    with pytest.raises(AttributeError, match="'Nope'"):
        getattr(toolcrib.approval, "Nope")  # noqa: B009


def test_importing_the_policy_loads_nothing_heavy() -> None:
    """YAML, the command line and the validation library wait until they are used."""
    program = (
        "import sys, toolcrib.approval.policy, toolcrib.approval.approvers\n"
        "print([m for m in ('yaml', 'rich', 'typer', 'pydantic', 'anyio') if m in sys.modules])"
    )

    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert run.stdout.strip() == "[]"
