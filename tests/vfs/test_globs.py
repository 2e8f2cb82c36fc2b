"""Patterns of a mount: which relative paths they mean."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.vfs.globs import glob_matches


@pytest.mark.parametrize(
    ("pattern", "path", "means_it"),
    [
        ("*.py", "a.py", True),
        ("*.py", "deep/er/a.py", True),
        ("*.py", "a.pyc", False),
        ("/*.py", "a.py", True),
        ("/*.py", "deep/a.py", False),
        ("./*.py", "deep/a.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/deep/er/a.py", True),
        ("src/**/*.py", "lib/src/a.py", False),
        ("**/src/*.py", "src/a.py", True),
        ("**/src/*.py", "lib/src/a.py", True),
        ("**/__pycache__/**", "__pycache__/a.pyc", True),
        ("**/__pycache__/**", "deep/__pycache__/a/b.pyc", True),
        ("**/__pycache__/**", "deep/pycache/a.pyc", False),
        ("**", "any/thing", True),
        ("build/", "build/a/b", True),
        ("build/", "deep/build/a", True),
        ("build/", "build", False),
        ("a?.txt", "ab.txt", True),
        ("a?.txt", "a/.txt", False),
        ("part[0-9].csv", "part7.csv", True),
        ("part[0-9].csv", "partx.csv", False),
        ("part[!0-9].csv", "partx.csv", True),
        ("*.PY", "a.py", False),
        ("*", ".env", True),
        ("a/b", "a", False),
        ("a", "a/b", False),
    ],
)
def test_a_pattern_means_what_it_says(pattern: str, path: str, means_it: bool) -> None:
    """C28: names, folders at any depth, anchored patterns, character classes."""
    assert glob_matches(pattern, path.split("/")) is means_it


NAMES = st.text(st.sampled_from("ab.*?[]!"), min_size=1, max_size=4).filter(lambda n: n != ".")
PATTERNS = st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "?"]), min_size=1, max_size=5)


@given(PATTERNS, st.lists(st.sampled_from(["a", "b", "ab", "aa"]), min_size=1, max_size=5))
def test_folders_match_as_a_regular_expression_would(parts: list[str], names: list[str]) -> None:
    """`**` is any number of folders, none included; the others are one name each."""
    one = {"**": "(?:[^/]+/)*", "*": "[^/]+/", "?": "[^/]/", "a*": "a[^/]*/"}
    regex = "".join(one.get(part, f"{part}/") for part in parts)

    expected = re.fullmatch(regex, "".join(f"{name}/" for name in names)) is not None
    assert glob_matches("/" + "/".join(parts), names) is expected


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_everything_is_matched_by_two_stars(names: list[str]) -> None:
    """Odd characters in a name do not hide it."""
    assert glob_matches("**", names)


def test_many_stars_do_not_hang() -> None:
    """A pattern that could be tried in very many ways is answered at once."""
    assert not glob_matches("**/" * 40 + "x", ["a"] * 200)
