"""Text for terminals: whole words, commands that a shell reads back, width in columns, colour."""

import io
import os
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.approval.pseudo_terminal import pseudo_terminal
from toolcrib.failures import FAILURE_KINDS
from toolcrib.terminal_text import (
    STATUS_STYLES,
    columns_of,
    command_lines,
    cut,
    cut_words,
    end_word,
    has_colour,
    padded,
    paint,
    terminal_width,
    wrap,
    wrap_items,
    wrap_lines,
)

WORDS = st.lists(st.text("ab漢é", min_size=1, max_size=12), min_size=1, max_size=20)


@given(words=WORDS, width=st.integers(4, 40), hanging=st.sampled_from(["", "  "]))
def test_a_line_breaks_between_words_only(words: list[str], width: int, hanging: str) -> None:
    """Every word is there, in order; a line is too wide only when it is one word."""
    lines = wrap(" ".join(words), width, hanging=hanging)

    assert [word for line in lines for word in line.split()] == words
    for line in lines:
        assert columns_of(line) <= width or len(line.split()) == 1
    assert all(line.startswith(hanging) for line in lines[1:])


@given(text=st.text("a ", min_size=1, max_size=60), width=st.integers(4, 20))
def test_an_exact_break_loses_one_space_and_no_more(text: str, width: int) -> None:
    """What a person approves is not changed by where a line ends."""
    text = f"x{text}x"
    assert " ".join(wrap(text, width, is_exact=True)) == text


def test_an_indented_line_stays_indented() -> None:
    """Further lines have the indentation of the first, and what hangs."""
    assert wrap("   name  a value", 12, hanging="  ") == ["   name  a", "     value"]


@given(words=WORDS, width=st.integers(12, 60))
def test_a_command_is_the_same_after_its_breaks(words: list[str], width: int) -> None:
    """A shell that reads the lines back gets the command."""
    command = shlex.join(["toolcrib", *words, "two words"])
    lines = command_lines(command, width)

    assert shlex.split("\n".join(lines).replace("\\\n", " ")) == shlex.split(command)
    assert all(line.endswith(" \\") for line in lines[:-1])


def test_commands_among_sentences_are_kept_whole() -> None:
    """An indented command is broken as a shell allows, everything else at words."""
    text = "Decide with:\n  toolcrib approvals approve apr_1 --store crib.sqlite3"

    assert [*wrap_lines(text, 40)] == [
        "Decide with:",
        "  toolcrib approvals approve apr_1 \\",
        "    --store crib.sqlite3",
    ]


def test_items_are_not_broken() -> None:
    """A key stays with what it does."""
    items = ("a approve", "r answer instead", "? help")

    assert wrap_items(items, 80) == ["a approve, r answer instead, ? help"]
    assert wrap_items(items, 26) == ["a approve,", "r answer instead, ? help"]


@given(text=st.text("ab 漢", max_size=30), width=st.integers(1, 20))
def test_what_is_cut_fits_and_says_so(text: str, width: int) -> None:
    """In columns, not characters."""
    for shorter in (cut(text, width), cut_words(text, width)):
        assert columns_of(shorter) <= width
        assert shorter == text or shorter.endswith("…")


def test_words_are_cut_between_them() -> None:
    """No half of a word is left before the mark, unless the first is too long."""
    assert cut_words("read the whole file, slowly", 22) == "read the whole file…"
    assert cut_words("incomprehensibilities", 8) == "incompr…"


def test_width_is_counted_in_columns() -> None:
    """Wide characters take two, and accents of their own none."""
    assert [columns_of(text) for text in ("ab", "漢字", "e\u0301")] == [2, 4, 1]
    assert padded("漢", 4) == "漢  "


def test_the_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS says otherwise; without a terminal it is 80."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal_width(io.StringIO()) == 80
    with pseudo_terminal(61) as terminal:
        assert terminal_width(terminal.stream) == 61
        monkeypatch.setenv("COLUMNS", "33")
        assert terminal_width(terminal.stream) == 33
        monkeypatch.setenv("COLUMNS", "wide")
        assert terminal_width(terminal.stream) == 61


def test_colour_is_for_terminals_whose_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a pipe, nor NO_COLOR, nor a dumb terminal gets an escape sequence."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    closed = open(os.devnull, "w")  # noqa: SIM115
    closed.close()
    assert not has_colour(closed)
    assert paint("text", "red", io.StringIO()) == "text"
    with pseudo_terminal() as terminal:
        assert paint("text", "bold red", terminal.stream) == "\x1b[1;31mtext\x1b[0m"
        assert paint("text", None, terminal.stream) == "text"
        monkeypatch.setenv("TERM", "dumb")
        assert paint("text", "red", terminal.stream) == "text"
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("NO_COLOR", "1")
        assert paint("text", "red", terminal.stream) == "text"


def test_every_end_has_a_word_and_a_colour() -> None:
    """Looks: denied, expired, stopped and failed are four words."""
    words = {end_word(is_success=False, failure_kind=kind) for kind in (*FAILURE_KINDS, None)}

    assert words == {"denied", "expired", "stopped", "failed"}
    assert end_word(is_success=True, failure_kind=None) == "ok"
    assert words < STATUS_STYLES.keys()
