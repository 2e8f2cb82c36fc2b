"""Strict YAML: plain data with lines, and an error that names the line of everything else."""

import pytest

from toolcrib.errors import InvalidYaml
from toolcrib.yaml_source import Located, read_yaml, unknown_key

TEXT = """\
name: shop
tools:
  - name: look
    timeout: 5
  - name: "5"
"""


def test_a_document_is_plain_data() -> None:
    """Text, numbers, true, false, null, lists and maps become the JSON they look like."""
    document = read_yaml("a: [1, 2.5, x, 'yes', true, null]\nb: {}\n")

    assert document.plain() == {"a": [1, 2.5, "x", "yes", True, None], "b": {}}


def test_an_empty_document_is_null() -> None:
    """A file without a document has no value, and is no fault of the reader."""
    assert read_yaml("# nothing\n") == Located(None, 1)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ([], 1),
        (["name"], 1),
        (["tools", 0, "timeout"], 4),
        (["tools", 1, "name"], 5),
        (["tools", 7, "name"], 2),
        (["tools", 0, "none", "deeper"], 3),
        (["tools", "0"], 2),
    ],
)
def test_every_value_has_a_line(path: list[str | int], line: int) -> None:
    """The line of a path is that of the value, or of its closest ancestor that exists."""
    assert read_yaml(TEXT).line_at(path) == line


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("name: a\nname: b\n", 2, "duplicate key 'name'; remove one of the two"),
        ("a:\n  1: x\n", 2, "the key 1 is not text; quote it"),
        ("a: &x 1\nb: *x\n", 1, "anchors (&, *) and tags (!) are not allowed"),
        ("a: !!str 1\n", 1, "anchors (&, *) and tags (!) are not allowed"),
        ("a: 1\nb: yes\n", 2, "YAML programs disagree about yes; put it in quotes"),
        ("a: 2024-01-01\n", 1, "YAML programs disagree about 2024-01-01"),
        ("a: 010\n", 1, "YAML programs disagree about 010"),
        ("a: " + "[" * 40, 1, "nested more than 32 levels deep"),
        ("a: [\n", 2, "this is not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "this is not YAML"),
    ],
)
def test_a_fault_names_its_line(text: str, line: int, message: str) -> None:
    """Whatever is not plain data is refused with the line and what to write instead."""
    with pytest.raises(InvalidYaml) as caught:
        read_yaml(text)

    assert caught.value.line == line
    assert str(caught.value).startswith(message)


def test_an_unknown_key_gets_a_suggestion() -> None:
    """A misspelt key is answered with the similar one, any other with all that exist."""
    known = ("principal", "tool")

    assert unknown_key("principle", known) == "unknown key 'principle'; did you mean 'principal'?"
    assert unknown_key("zzz", known) == "unknown key 'zzz'; write one of principal, tool"
