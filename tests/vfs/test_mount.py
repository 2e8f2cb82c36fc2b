"""Virtual paths and host mounts refuse what could lead elsewhere."""

import dataclasses
from typing import Any

import pytest

from toolcrib.errors import UsageError
from toolcrib.vfs import HostMount, VfsPath


def test_a_path_is_enough() -> None:
    """C28: all of it, without links, wherever the reader puts it."""
    mount = HostMount("sunfish")

    assert (mount.mount_path, mount.include_glob, mount.exclude_glob) == (None, (), ())
    assert (mount.max_bytes, mount.follow_symlinks) == (None, False)


def test_a_mount_is_frozen() -> None:
    """H2: what was checked stays as it is."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        HostMount("a").host_path = "b"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host_path", ""),
        ("host_path", "a\0b"),
        ("host_path", "../secrets"),
        ("host_path", "a/../../b"),
        ("host_path", None),
        ("mount_path", "/a"),
        ("include_glob", "*.py"),
        ("include_glob", ["*.py"]),
        ("exclude_glob", ("",)),
        ("max_bytes", 0),
        ("max_bytes", True),
        ("max_bytes", 1.5),
        ("follow_symlinks", "no"),
    ],
)
def test_unsound_parts_are_refused(field: str, value: Any) -> None:
    """Each part is checked when the mount is declared, and named when it is wrong."""
    parts: dict[str, Any] = {"host_path": "sunfish", field: value}

    with pytest.raises(UsageError, match=rf"HostMount\.{field}"):
        HostMount(**parts)


def test_a_mount_with_every_part_is_taken() -> None:
    """C28: the document's example."""
    mount = HostMount(
        host_path="sunfish",
        mount_path=VfsPath(("workspace", "sunfish")),
        include_glob=("*.py",),
        exclude_glob=("**/__pycache__/**",),
        max_bytes=600_000,
        follow_symlinks=True,
    )

    assert str(mount.mount_path) == "/workspace/sunfish"


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
