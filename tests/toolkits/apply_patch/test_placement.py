"""The applier: a diff between two texts turns the first into the second, or nothing happens."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.toolkits.apply_patch.diffs import unified, v4a
from toolcrib.errors import PatchFailed
from toolcrib.toolkits.apply_patch import apply_diff, text_of_new
from toolcrib.toolkits.apply_patch import placement as placing_module

ANY_LINE = st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"]))
LIKELY_LINE = st.sampled_from(
    ["", "a", "b", "}", "  a", "a ", "@@ a", "-- a", "++ a", "\\", "*** "]
)


def joined(lines: list[str], end: str) -> str:
    return "\n".join(lines) + (end if lines else "")


TEXT = st.builds(joined, st.lists(LIKELY_LINE | ANY_LINE, max_size=12), st.sampled_from(["\n", ""]))
PLAIN_TEXT = TEXT.filter(lambda text: "\r" not in text)
DISTINCT_LINES = st.lists(
    st.text("abcdef", min_size=1, max_size=6), min_size=1, max_size=15, unique=True
)


@given(TEXT, TEXT, st.integers(1, 4))
def test_a_unified_diff_turns_one_text_into_the_other(a: str, b: str, context: int) -> None:
    """apply(diff(a, b), a) == b, for any texts, whatever repeats in them."""
    if a != b:
        assert apply_diff(a, unified(a, b, context)) == b


@given(PLAIN_TEXT, PLAIN_TEXT)
def test_line_numbers_alone_are_enough(a: str, b: str) -> None:
    """Hunks without any context are placed by their line numbers."""
    if a != b:
        assert apply_diff(a, unified(a, b, 0)) == b


@given(TEXT, TEXT)
def test_a_v4a_diff_with_all_context_turns_one_text_into_the_other(a: str, b: str) -> None:
    """Without line numbers, a hunk that shows the whole file has one place only."""
    if a != b:
        assert apply_diff(a, v4a(a, b, 1000)) == b


@given(DISTINCT_LINES, st.data())
def test_a_v4a_diff_needs_little_context_where_lines_are_distinct(
    lines: list[str], data: st.DataObject
) -> None:
    """Without line numbers, one line of context is enough when it is found only once."""
    kept = data.draw(st.lists(st.sampled_from(lines), unique=True).map(set))
    a = "".join(f"{line}\n" for line in lines)
    b = "".join(f"{line}\n" if line in kept else f"new {line}\n" for line in lines)

    if a != b:
        assert apply_diff(a, v4a(a, b, 1)) == b


@given(TEXT, TEXT, TEXT)
def test_what_does_not_fit_fails_and_never_breaks(a: str, b: str, c: str) -> None:
    """A diff made for another text is applied as a whole or refused; nothing else is raised."""
    with suppress(PatchFailed):
        assert isinstance(apply_diff(c, v4a(a, b, 2)), str)


@given(st.text(), st.text())
def test_any_text_may_be_given_as_a_diff(text: str, diff: str) -> None:
    """What is no diff is refused with a reason; nothing else is raised."""
    with suppress(PatchFailed):
        assert isinstance(apply_diff(text, diff), str)
    with suppress(PatchFailed):
        assert isinstance(text_of_new(diff), str)


@given(TEXT)
def test_a_unified_diff_from_nothing_makes_the_file(text: str) -> None:
    """A new file may come as a diff against nothing."""
    if text:
        header = "--- /dev/null\n+++ b/new.txt\n"
        assert text_of_new(header + unified("", text)) == text


@given(st.lists(ANY_LINE, min_size=1))
def test_a_new_file_of_plus_lines_ends_with_one_newline(lines: list[str]) -> None:
    """A new file in V4A is its lines behind '+'; whether the last newline is shown or not."""
    whole = "".join(f"{line}\n" for line in lines)
    diff = "".join(f"+{line}\n" for line in lines)

    assert text_of_new(diff + "+\n") == whole
    if lines[-1] not in ("", "\r"):
        assert text_of_new(diff) == whole


FUNCTIONS = """\
class First:
    def run(self):
        return 1

class Second:
    def run(self):
        return 1
"""


def test_anchors_say_which_of_several_places_is_meant() -> None:
    """Each `@@` line narrows the search to what comes after that line of the file."""
    diff = "@@ class Second:\n@@     def run(self):\n-        return 1\n+        return 2\n"

    assert apply_diff(FUNCTIONS, diff) == FUNCTIONS[:-2] + "2\n"


def test_an_anchor_may_be_indented_otherwise_or_repeated_as_context() -> None:
    """Models write anchors loosely, and often show the same line again below."""
    diff = "@@ def run(self):\n     def run(self):\n-        return 1\n+        return 2\n"

    assert apply_diff(FUNCTIONS, diff) == FUNCTIONS.replace("return 1", "return 2", 1)


def test_a_lost_anchor_is_forgiven_where_the_context_is_enough() -> None:
    """An anchor that is not in the file does not matter when only one place fits."""
    diff = "@@ def nowhere():\n class Second:\n-    def run(self):\n+    def go(self):\n"

    assert "class Second:\n    def go(self)" in apply_diff(FUNCTIONS, diff)


def test_a_change_without_telling_where_is_refused() -> None:
    """Nothing is guessed: where two places fit, the model must say which."""
    with pytest.raises(PatchFailed, match=r"more than one place \(lines 3, 7\); add more context"):
        apply_diff(FUNCTIONS, "@@\n-        return 1\n+        return 2\n")
    with pytest.raises(PatchFailed, match="does not say where"):
        apply_diff(FUNCTIONS, "+# a comment\n")


def test_lines_may_be_added_after_an_anchor_and_at_the_end() -> None:
    """Added lines without context go after the anchor, or to the end when that is said."""
    assert apply_diff("a\nb\n", "@@ a\n+x\n") == "a\nx\nb\n"
    assert apply_diff("a\nb\n", "@@\n+x\n*** End of File\n\n") == "a\nb\nx\n"
    assert apply_diff("", "+x\n") == "x\n"


def test_the_end_of_the_file_can_be_meant() -> None:
    """`*** End of File` picks the last place and refuses any other."""
    assert apply_diff("a\nb\na\n", "-a\n+x\n*** End of File") == "a\nb\nx\n"
    with pytest.raises(PatchFailed, match="fits at line 1, but that is not the end of the file"):
        apply_diff("a\nb\n", "-a\n*** End of File\n")


def test_the_last_newline_may_be_shown_as_an_empty_line() -> None:
    """An empty context line after the file's last line is the end of that line."""
    assert apply_diff("a\nb\n", "@@\n a\n-b\n+c\n \n") == "a\nc\n"


def test_lost_space_at_the_end_of_lines_is_forgiven_and_kept() -> None:
    """Context that lost its trailing space still fits, and the file keeps the space."""
    assert apply_diff("a  \nb\n", "@@\n a\n-b\n+c\n") == "a  \nc\n"


def test_an_exact_place_wins_over_a_loose_one() -> None:
    """Trailing space is only overlooked where nothing fits exactly."""
    assert apply_diff("a \nb\na\n", "-a\n+x\n") == "a \nb\nx\n"


def test_added_lines_take_the_line_ends_of_the_file() -> None:
    """A file with CR LF keeps it, whatever the diff uses, and so does one without."""
    assert apply_diff("a\r\nb\r\n", " a\n-b\n+c\n") == "a\r\nc\r\n"
    assert apply_diff("a\nb\n", "@@\r\n a\r\n-b\r\n+c\r\n") == "a\nc\n"
    assert apply_diff("a\r\nb\r\n", "@@ a\n+x\n") == "a\r\nx\r\nb\r\n"


def test_a_file_without_a_last_newline_stays_so() -> None:
    """Only a diff that says otherwise changes how a file ends."""
    assert apply_diff("a\nb", "-a\n+c\n") == "c\nb"
    assert apply_diff("a\nb", "-b\n\\ No newline at end of file\n+b\n") == "a\nb\n"


def test_wrong_line_numbers_are_forgiven_where_the_lines_are_found() -> None:
    """Models miscount; the nearest place that has the lines is taken."""
    assert apply_diff("a\nb\nc\nb\n", "@@ -40,1 +40,1 @@ def x\n-b\n+x\n") == "a\nb\nc\nx\n"


def test_a_header_is_passed_over() -> None:
    """Names of files before the first hunk are not lines of it, but a removed `-- x` is."""
    header = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n"

    assert apply_diff("a\n", header + "@@ -1 +1 @@\n-a\n+b\n") == "b\n"
    assert apply_diff("-- a\n", "--- a\n+++ b\n") == "++ b\n"


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (
            "@@\n a\n-x\n+y\n",
            "fit at line 1, but at line 2 the file has 'b' where the diff has 'x'",
        ),
        ("@@\n c\n-d\n", "at line 4 the file has no more lines where the diff has 'd'"),
        ("@@\n-x\n", "hunk 1 .line 1 of the diff. does not match: the file has no line 'x'"),
        ("@@ zz\n-x\n", "nor is there a line 'zz'"),
        ("@@\n-b\n@@\n-a\n", "hunk 2 .line 3 .* fits at line 1, but the hunk before it"),
        ("@@ b\n-a\n", "fits at line 1, which is before its '@@' line, at line 2"),
        ("@@\n-b\n@@\n-x\n", "no line 'x' from line 3 on"),
        ("", "changes nothing"),
        ("@@\n a\n", "changes nothing"),
        ("-a\n@@\n", "hunk 2 .line 2 of the diff. has no lines"),
        ("*** Begin Patch\n-a\n", "only the hunks of one file"),
        ("-a\n*** End of File\n-b\n", "line 3 of the diff"),
        ("\\ No newline at end of file\n-a\n", "line 1 of the diff"),
        ("@@\n-" + "x" * 200 + "\n", r"no line 'x{77}\.\.\.'"),
    ],
)
def test_a_failure_says_what_did_not_match_and_where(diff: str, why: str) -> None:
    """The model can mend its diff from the message alone."""
    with pytest.raises(PatchFailed, match=why):
        apply_diff("a\nb\nc\n", diff)


@pytest.mark.parametrize("diff", ["a\n", "+a\n b\n", "@@\n-a\n+b\n", "@@ a\n+b\n", "@@\n a\n"])
def test_a_new_file_has_nothing_but_added_lines(diff: str) -> None:
    """A file that is not there yet has no line to keep or to remove."""
    with pytest.raises(PatchFailed):
        text_of_new(diff)


def test_a_diff_made_to_take_forever_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of placing hunks has a limit."""
    limit: Any = 100
    monkeypatch.setattr(placing_module, "MOST_COMPARED", limit)

    with pytest.raises(PatchFailed, match="takes too long"):
        apply_diff("a\n" * 200, "@@\n" + " a\n" * 100 + "-b\n+c\n" + "@@\n a\n-c\n" * 10)
