"""VfsPath: a path that cannot climb."""

from typing import Any

import pytest

from toolcrib.errors import UsageError
from toolcrib.vfs import VfsPath


def test_a_path_is_written_with_slashes() -> None:
    """C28: the form that goes into messages and payloads."""
    assert str(VfsPath(("workspace", "sunfish"))) == "/workspace/sunfish"
    assert str(VfsPath(())) == "/"


@pytest.mark.parametrize("text", ["/", "/a", "/a/b.txt", "/ä/検索", "/with space/x"])
def test_what_is_written_can_be_read(text: str) -> None:
    """Reading the text of a path gives the path."""
    assert str(VfsPath.parse(text)) == text


def test_the_slash_in_front_may_be_missing() -> None:
    """There are only absolute paths, so nothing else can be meant."""
    assert VfsPath.parse("a/b") == VfsPath(("a", "b"))


@pytest.mark.parametrize("segment", ["", " ", ".", "..", "a/b", "a\\b", "a\0", "a\nb", 5, None])
def test_a_segment_that_is_no_name_is_refused(segment: Any) -> None:
    """No climbing, no hidden separator, nothing that a terminal would act on."""
    with pytest.raises(UsageError, match="is not a name"):
        VfsPath(("a", segment))


@pytest.mark.parametrize("text", ["a//b", "/a/", "/../a", "/a/./b"])
def test_a_text_with_odd_segments_is_refused(text: str) -> None:
    """A text is not tidied up: what is odd is refused."""
    with pytest.raises(UsageError):
        VfsPath.parse(text)


def test_segments_come_in_a_tuple() -> None:
    """A lone text would be read letter by letter."""
    wrong: Any = "ab"

    with pytest.raises(UsageError, match="must be a tuple"):
        VfsPath(wrong)
