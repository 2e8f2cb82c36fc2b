"""The work directory: files go in and come out, and nothing leads out of it."""

import errno
import os
from pathlib import Path

import pytest

from toolcrib.errors import UsageError
from toolcrib.sandbox import WorkDirectory


@pytest.fixture
def work(tmp_path: Path) -> WorkDirectory:
    return WorkDirectory.at(tmp_path / "work")


def test_files_are_written_listed_read_and_deleted(work: WorkDirectory) -> None:
    """A name may have folders, which are made."""
    work.write("b/c.txt", b"two")
    work.write("a.txt", b"one")
    work.write("a.txt", b"three")

    assert [(file.name, file.size) for file in work.files()] == [("a.txt", 5), ("b/c.txt", 3)]
    assert work.read("a.txt", limit=5) == b"three"
    work.delete("a.txt")
    assert [file.name for file in work.files()] == ["b/c.txt"]


def test_nobody_else_can_enter_it(work: WorkDirectory) -> None:
    """It is made for its owner alone."""
    assert work.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("path", ["/", "/usr", "/etc/toolcrib", "~", "~/.."])
def test_folders_of_others_are_no_work_directories(path: str) -> None:
    """R44: root gives a work directory away with all that is in it; a mistake would be for good."""
    with pytest.raises(UsageError, match="cannot be a work directory"):
        WorkDirectory.at(Path(path).expanduser())


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\0b"])
def test_only_names_below_it_are_names(work: WorkDirectory, name: str) -> None:
    """A name that leads elsewhere is a mistake of the caller, and is told."""
    with pytest.raises(UsageError, match="not a path below the work directory"):
        work.write(name, b"")


def test_links_are_not_followed(work: WorkDirectory, tmp_path: Path) -> None:
    """R44: a link is neither read, nor written through, nor listed, wherever it stands."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("kept")
    (work.path / "link").symlink_to(outside / "secret")
    (work.path / "folder").symlink_to(outside)

    with pytest.raises(OSError) as caught:  # noqa: PT011
        work.read("link", limit=100)
    assert caught.value.errno == errno.ELOOP
    for action in (
        lambda: work.read("folder/secret", limit=100),
        lambda: work.write("folder/secret", b"gone"),
        lambda: work.delete("folder/secret"),
    ):
        with pytest.raises(NotADirectoryError):
            action()
    assert work.files() == ()
    work.write("link", b"mine")
    assert (outside / "secret").read_text() == "kept"


def test_a_pipe_does_not_block_its_reader(work: WorkDirectory) -> None:
    """R44: what only looks like a file is refused at once."""
    os.mkfifo(work.path / "pipe")

    with pytest.raises(OSError, match="not a regular file"):
        work.read("pipe", limit=100)


def test_too_large_a_file_is_refused(work: WorkDirectory) -> None:
    """R44: a result has a limit, whatever the file says of its size."""
    work.write("a", b"x" * 101)

    with pytest.raises(OSError, match="more than 100 bytes") as caught:
        work.read("a", limit=100)
    assert caught.value.errno == errno.EFBIG


def test_what_it_takes_up_is_counted(work: WorkDirectory) -> None:
    """Blocks on the disk count, in every folder."""
    before = work.used_bytes()
    work.write("a/b", b"x" * 100_000)

    assert before + 100_000 <= work.used_bytes() <= before + 300_000


def test_a_temporary_one_is_gone_afterwards() -> None:
    """Also when a command has locked its folders."""
    with WorkDirectory.temporary() as work:
        work.write("a/b", b"x")
        (work.path / "a").chmod(0)
    assert not work.path.exists()


def test_what_is_too_deep_to_count_is_more_than_any_disk(work: WorkDirectory) -> None:
    """R44: folders without end neither stop the count nor the removal."""
    here = os.open(work.path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        following = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = following
    os.close(here)
    work.write("a", b"x")

    assert work.used_bytes() > 2**60
    assert [file.name for file in work.files()] == ["a"]
    work.remove()
    assert not work.path.exists()


def test_removal_leaves_alone_what_links_lead_to(work: WorkDirectory, tmp_path: Path) -> None:
    """R44: a link is removed, not its target; names like those of the removal do no harm."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (work.path / "a" / "b").mkdir(parents=True)
    (work.path / "a" / "link").symlink_to(outside)
    (work.path / "link").symlink_to(outside)
    work.write(".removed-0", b"x")
    work.write("a/b/c/.removed-1", b"x")

    work.remove()

    assert not work.path.exists()
    assert (outside / "kept").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_is_put_into_it_belongs_to_its_owner(work: WorkDirectory) -> None:
    """R44: a command that runs as another user can work with the files that it is given; a link's
    target is not given away.
    """
    target = work.path.parent / "target"
    target.touch()
    (work.path / "link").symlink_to(target)
    work.write("before", b"")
    work.give_to(12345)
    work.write("a/after", b"")

    owners = {path.lstat().st_uid for path in (work.path, *work.path.rglob("*"))}
    assert owners == {12345}
    assert target.stat().st_uid == 0
