"""HostMount: which files of the host are shown."""

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
