"""toolcrib.prompt: every name is there, and prompts cost nothing until they are rendered."""

import subprocess
import sys

import pytest

import toolcrib
from toolcrib import prompt

LIGHT = """
import sys
from dataclasses import dataclass
from toolcrib import MarkdownSection, Prompt
from toolcrib.tools.web_search import WebSearchSection

@dataclass
class Answer:
    text: str

ask = MarkdownSection(title="Ask", key="ask", template="$question")
Prompt[Answer](ns="a", key="b", sections=[ask, WebSearchSection()]).bind(question="Why?")
heavy = {"pydantic", "pydantic_core", "jsonschema_rs", "anyio", "openai"}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.mark.parametrize("name", prompt.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """The list of names is the truth."""
    assert getattr(prompt, name) is not None
    assert name in dir(prompt)


@pytest.mark.parametrize("name", ["MarkdownSection", "Prompt", "RenderedPrompt", "Section"])
def test_the_usual_names_are_in_the_package_too(name: str) -> None:
    """X17: prompts are written with imports from `toolcrib` alone."""
    assert getattr(toolcrib, name) is getattr(prompt, name)
    assert name in toolcrib.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Promt'"):
        getattr(prompt, "Promt")  # noqa: B009


def test_declaring_prompts_imports_nothing_heavy() -> None:
    """A module full of prompts stays light until one of them is rendered."""
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
