"""Files under a root: nothing outside it is touched, and a file changes as a whole or not."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.errors import PatchFailed
from toolcrib.toolkits.apply_patch.files import PatchFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


@pytest.fixture
def files(root: Path) -> PatchFiles:
    return PatchFiles(str(root), max_bytes=100, protected=frozenset({".git"}))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_a_new_file_gets_its_directories(files: PatchFiles, root: Path) -> None:
    """A file may be created where no directory is yet; nothing else is left behind."""
    files.create("a/b/c.txt", b"x")

    assert (root / "a" / "b" / "c.txt").read_bytes() == b"x"
    assert names_in(root) == ["a", "b", "c.txt"]


def test_a_path_may_start_with_a_dot(files: PatchFiles, root: Path) -> None:
    """`./x` is `x`."""
    files.create("./x", b"1")

    assert (root / "x").read_bytes() == b"1"


def test_an_existing_file_is_never_created_over(files: PatchFiles, root: Path) -> None:
    """Creating is not updating: what is there stays."""
    (root / "x").write_bytes(b"old")

    with pytest.raises(PatchFailed, match="exists already; to change it, use update_file"):
        files.create("x", b"new")
    assert (root / "x").read_bytes() == b"old"
    assert names_in(root) == ["x"]


def test_a_replaced_file_keeps_its_mode(files: PatchFiles, root: Path) -> None:
    """An executable stays executable, and no temporary file is left."""
    script = root / "run.sh"
    script.write_bytes(b"old")
    script.chmod(0o751)

    files.replace("run.sh", files.read("run.sh"), b"new")

    assert script.read_bytes() == b"new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert names_in(root) == ["run.sh"]


def test_a_hard_link_elsewhere_keeps_the_old_content(files: PatchFiles, root: Path) -> None:
    """A file is replaced by name, so its other names outside the root are not written through."""
    outside = root.parent / "outside"
    outside.write_bytes(b"old")
    os.link(outside, root / "x")

    files.replace("x", files.read("x"), b"new")

    assert (outside.read_bytes(), (root / "x").read_bytes()) == (b"old", b"new")


def test_a_file_that_changed_meanwhile_is_left_alone(files: PatchFiles, root: Path) -> None:
    """Somebody else's change between reading and writing is not lost."""
    (root / "x").write_bytes(b"old")
    found = files.read("x")
    (root / "x").write_bytes(b"theirs")

    with pytest.raises(PatchFailed, match="has changed since it was read"):
        files.replace("x", found, b"ours")
    assert (root / "x").read_bytes() == b"theirs"
    assert names_in(root) == ["x"]


def test_a_deleted_file_is_gone(files: PatchFiles, root: Path) -> None:
    """Only the file goes, not its directory."""
    files.create("a/x", b"1")

    files.delete("a/x")

    assert names_in(root) == ["a"]


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "a/../../outside.txt",
        "a/..",
        "..",
        ".",
        "",
        "./",
        "/etc/passwd",
        "//etc/passwd",
        "a//b",
        "a/",
        "a\\..\\b",
        "a\0b",
        "a\nb",
        ".git/config",
        "sub/.GIT/hooks/pre-commit",
    ],
)
def test_paths_that_lead_elsewhere_are_refused(files: PatchFiles, root: Path, path: str) -> None:
    """No climbing, no absolute path, no empty name, nothing protected, for any operation."""
    (root.parent / "outside.txt").write_bytes(b"1")
    (root / "a").mkdir()

    with pytest.raises(PatchFailed):
        files.read(path)
    with pytest.raises(PatchFailed):
        files.delete(path)
    with pytest.raises(PatchFailed):
        files.create(path, b"2")
    assert (root.parent / "outside.txt").read_bytes() == b"1"
    assert names_in(root) == ["a"]


def test_links_are_not_followed(files: PatchFiles, root: Path) -> None:
    """Neither a link to a file nor a directory that is a link leads anywhere."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"1")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "x")
    (root / "dangling").symlink_to(outside / "new")

    for path in ("folder/x", "file"):
        with pytest.raises(PatchFailed, match="symbolic link"):
            files.read(path)
        with pytest.raises(PatchFailed, match="symbolic link"):
            files.delete(path)
    for path in ("folder/new", "folder/deep/new", "dangling"):
        with pytest.raises(PatchFailed):
            files.create(path, b"2")
    assert names_in(outside) == ["x"]
    assert (root / "dangling").is_symlink()


def test_a_file_swapped_for_a_link_is_not_written_through(files: PatchFiles, root: Path) -> None:
    """A link that takes the file's place after it was read is noticed."""
    (root / "x").write_bytes(b"old")
    found = files.read("x")
    (root.parent / "secret").write_bytes(b"old")
    (root / "x").unlink()
    (root / "x").symlink_to(root.parent / "secret")

    with pytest.raises(PatchFailed):
        files.replace("x", found, b"new")
    assert (root.parent / "secret").read_bytes() == b"old"


def test_the_root_may_itself_be_a_link(files: PatchFiles, root: Path) -> None:
    """The root is the user's choice; only what the model names is confined."""
    (root.parent / "link").symlink_to(root)

    PatchFiles(str(root.parent / "link"), max_bytes=9).create("x", b"1")

    assert (root / "x").read_bytes() == b"1"


def test_only_files_count(files: PatchFiles, root: Path) -> None:
    """Directories and pipes are neither read nor deleted, and a pipe does not block."""
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")

    for path in ("folder", "pipe"):
        with pytest.raises(PatchFailed, match="is not a file"):
            files.read(path)
        with pytest.raises(PatchFailed, match="is not a file"):
            files.delete(path)
    with pytest.raises(PatchFailed, match="no directory"):
        files.create("pipe/x", b"1")
    assert names_in(root) == ["folder", "pipe"]


def test_sizes_are_capped_both_ways(files: PatchFiles, root: Path) -> None:
    """Neither a file that is too large nor a result that would be is handled."""
    (root / "large").write_bytes(b"x" * 101)
    (root / "small").write_bytes(b"x" * 100)

    with pytest.raises(PatchFailed, match="more than 100 bytes"):
        files.read("large")
    with pytest.raises(PatchFailed, match="more than 100 bytes"):
        files.create("new", b"x" * 101)
    with pytest.raises(PatchFailed, match="more than 100 bytes"):
        files.replace("small", files.read("small"), b"x" * 101)
    assert names_in(root) == ["large", "small"]


def test_a_missing_file_and_a_missing_root_are_told_apart(files: PatchFiles, root: Path) -> None:
    """The message says what is missing, without the host's own path."""
    with pytest.raises(PatchFailed, match="'x/y' does not exist"):
        files.read("x/y")
    gone = PatchFiles(str(root / "gone"), max_bytes=9)
    with pytest.raises(PatchFailed, match="the root directory cannot be opened") as caught:
        gone.read("x")
    assert str(root) not in str(caught.value)


def test_other_faults_of_the_system_are_failures_too(files: PatchFiles) -> None:
    """A name that the file system refuses is a failure with the system's reason."""
    with pytest.raises(PatchFailed, match="name too long"):
        files.create("x" * 300, b"1")


def test_no_descriptor_is_left_open(files: PatchFiles, root: Path) -> None:
    """Failures close what they opened."""
    (root / "a").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b/c", "a", "../x", "nope"):
        with pytest.raises(PatchFailed):
            files.read(path)
        with pytest.raises(PatchFailed):
            files.delete(path)

    assert len(os.listdir("/proc/self/fd")) == before


FULL_DISK = """
import resource, sys
from toolcrib.toolkits.apply_patch.files import PatchFiles
from toolcrib.errors import PatchFailed

files = PatchFiles(sys.argv[1], max_bytes=10**6)
found = files.read("x")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for run in (
    lambda: files.replace("x", found, b"n" * 5000),
    lambda: files.create("y", b"n" * 5000),
):
    try:
        run()
    except PatchFailed as error:
        print(error)
"""


def test_a_write_that_breaks_off_leaves_the_old_file(root: Path) -> None:
    """When the disk is full, a file is as it was, and nothing half-written lies about."""
    (root / "x").write_bytes(b"old")

    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(root)], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == ["'x': File too large", "'y': File too large"]
    assert (root / "x").read_bytes() == b"old"
    assert names_in(root) == ["x"]
