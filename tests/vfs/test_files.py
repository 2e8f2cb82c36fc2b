"""The files that a mount shows: real folders, links, pipes and races, and the paths that its
patterns match.
"""

import logging
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.errors import UsageError
from toolcrib.vfs import HostMount
from toolcrib.vfs import files as files_module
from toolcrib.vfs.files import HostFile, glob_matches, mounted_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def write(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(mount: HostMount, root: Path) -> list[str]:
    return [file.name for file in mounted_files(mount, [root])]


def contents(file: HostFile) -> bytes:
    with file.open() as opened:
        return opened.read()


def test_everything_below_a_folder_in_the_order_of_names(root: Path) -> None:
    """C28: names are relative to the mount, and the order is the same everywhere."""
    write(root, "m/b.txt", "m/a/z.txt", "m/a.txt", "m/a/b/c.txt", "m/.hidden", "other/x.txt")

    assert names(HostMount("m"), root) == [".hidden", "a/b/c.txt", "a/z.txt", "a.txt", "b.txt"]
    assert names(HostMount("."), root)[-1] == "other/x.txt"


def test_one_file_is_a_mount_too(root: Path) -> None:
    """A file is shown under its own name."""
    write(root, "deep/a.csv", text="1,2")

    (file,) = mounted_files(HostMount("deep/a.csv"), [root])

    assert (file.name, file.size, contents(file)) == ("a.csv", 3, b"1,2")


def test_globs_hold_for_a_single_file_too(root: Path) -> None:
    """C28: naming a file does not lift what is excluded."""
    write(root, "m/a.txt")

    assert names(HostMount("m/a.txt", exclude_glob=("*.txt",)), root) == []
    assert names(HostMount("m/a.txt", include_glob=("*.csv",)), root) == []


def test_globs_choose(root: Path) -> None:
    """C28: what is included and not excluded; a folder that is excluded is excluded whole."""
    write(root, "m/a.py", "m/a.md", "m/a.csv", "m/lib/b.py", "m/lib/__pycache__/b.py")
    write(root, "m/secrets/deep/key.py")
    mount = HostMount(
        "m", include_glob=("*.py", "*.md"), exclude_glob=("**/__pycache__/**", "secrets")
    )

    assert names(mount, root) == ["a.md", "a.py", "lib/b.py"]


def test_the_budget_names_what_would_exceed_it(root: Path) -> None:
    """C28: the first file over the limit is named, with its size."""
    write(root, "m/a.txt", text="12345")
    write(root, "m/b.txt", text="123456")

    with pytest.raises(UsageError, match=r"'b\.txt' \(6 bytes\) .* 11 bytes, and max_bytes is 10"):
        mounted_files(HostMount("m", max_bytes=10), [root])
    assert len(mounted_files(HostMount("m", max_bytes=11), [root])) == 2
    assert len(mounted_files(HostMount("m", max_bytes=5, exclude_glob=("b*",)), [root])) == 1


def test_links_are_passed_over_unless_followed(root: Path) -> None:
    """A link is not a file; followed, it is what it leads to, under its own name."""
    write(root, "m/real/a.txt", "elsewhere/b.txt")
    (root / "m" / "alias").symlink_to("real")
    (root / "m" / "file.txt").symlink_to("../elsewhere/b.txt")

    assert names(HostMount("m"), root) == ["real/a.txt"]
    followed = names(HostMount("m", follow_symlinks=True), root)
    assert followed == ["alias/a.txt", "file.txt", "real/a.txt"]


def test_links_out_of_the_roots_are_never_followed(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No link widens a root; that one was passed over is said in the log."""
    write(tmp_path, "secret/key.txt", "key.txt")
    write(root, "m/a.txt")
    (root / "m" / "folder").symlink_to(tmp_path / "secret")
    (root / "m" / "file.txt").symlink_to("../../key.txt")
    (root / "m" / "broken.txt").symlink_to("nowhere")
    (root / "m" / "relay").symlink_to("folder")

    with caplog.at_level(logging.WARNING):
        assert names(HostMount("m", follow_symlinks=True), root) == ["a.txt"]
    assert len([each for each in caplog.messages if "leads out of the allowed roots" in each]) == 4


def test_a_link_may_lead_to_another_root(root: Path, tmp_path: Path) -> None:
    """What is allowed by itself is allowed through a link."""
    write(tmp_path, "second/b.txt")
    (root / "m").mkdir()
    (root / "m" / "b.txt").symlink_to(tmp_path / "second" / "b.txt")

    found = mounted_files(HostMount("m", follow_symlinks=True), [root, tmp_path / "second"])

    assert [(file.name, contents(file)) for file in found] == [("b.txt", b"x")]


def test_a_circle_of_links_ends(root: Path) -> None:
    """A folder that leads back to one above it is not entered again."""
    write(root, "m/a/x.txt")
    (root / "m" / "a" / "up").symlink_to("..")
    (root / "m" / "self").symlink_to("self")

    assert names(HostMount("m", follow_symlinks=True), root) == ["a/x.txt"]


def test_special_files_are_passed_over(root: Path) -> None:
    """Pipes and sockets are no files; looking at them does not wait."""
    write(root, "m/a.txt")
    os.mkfifo(root / "m" / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "m" / "s"))

        assert names(HostMount("m"), root) == ["a.txt"]
    assert names(HostMount("m/pipe.txt"), root) == []


def test_a_mount_that_is_much_too_large_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking ends somewhere, also when links make few folders look like very many."""
    monkeypatch.setattr(files_module, "MOST_ENTRIES", 30)
    for name in "abcde":
        (root / "m" / name).mkdir(parents=True)
        for other in "abcde":
            (root / "m" / name / other).symlink_to(f"../{other}")

    with pytest.raises(UsageError, match="more than 30 entries"):
        mounted_files(HostMount("m", follow_symlinks=True), [root])


def test_a_file_that_changed_is_not_read(root: Path) -> None:
    """What was counted is what is read: not a longer file, and not another one."""
    write(root, "a.txt", "b.txt", "c.txt")
    first, second, third = mounted_files(HostMount("."), [root])

    write(root, "a.txt", text="much longer")
    (root / "b.txt").unlink()
    os.mkfifo(root / "b.txt")
    (root / "c.txt").unlink()

    for file in (first, second):
        with pytest.raises(UsageError, match=r"'[ab]\.txt' has changed since it was listed"):
            file.open()
    with pytest.raises(UsageError, match=r"'c\.txt' cannot be read: No such file"):
        third.open()


def test_a_folder_swapped_for_a_link_leads_nowhere(root: Path, tmp_path: Path) -> None:
    """Between looking and opening, a link to another place is not followed."""
    write(tmp_path, "secret/a.txt", text="y")
    write(root, "m/data/a.txt")
    (file,) = mounted_files(HostMount("m"), [root])

    (root / "m" / "data").rename(root / "m" / "old")
    (root / "m" / "data").symlink_to(tmp_path / "secret")

    with pytest.raises(UsageError, match=r"'data/a\.txt' cannot be read"):
        file.open()


def test_writing_while_a_file_is_open_is_noticed(root: Path) -> None:
    """Whoever reads can tell that what was read is what was found."""
    write(root, "a.txt")
    (file,) = mounted_files(HostMount("a.txt"), [root])

    with file.open() as opened:
        assert file.is_unchanged(opened)
        write(root, "a.txt", text="longer")
        assert not file.is_unchanged(opened)


@pytest.fixture
def guarded() -> Generator[Path]:
    """A folder that one may look at and another that one may not, also for the superuser."""
    top = Path(os.path.realpath(tempfile.mkdtemp()))
    write(top, "m/closed/a.txt", "m/blind/a.txt")
    top.chmod(0o755)
    (top / "m" / "closed").chmod(0o311)
    (top / "m" / "blind").chmod(0o644)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield top
    os.seteuid(user)
    for folder in (top / "m").iterdir():
        folder.chmod(0o755)
    shutil.rmtree(top)


@pytest.mark.parametrize(("excluded", "named"), [("blind", "closed"), ("closed", "blind/a.txt")])
def test_what_cannot_be_read_is_named(guarded: Path, excluded: str, named: str) -> None:
    """A folder that is closed to us is an error, unless it is excluded; nothing goes missing."""
    with pytest.raises(UsageError, match=f"host mount 'm': '{named}' cannot be read: Permission"):
        mounted_files(HostMount("m", exclude_glob=(excluded,)), [guarded])
    assert mounted_files(HostMount("m", exclude_glob=("closed", "blind")), [guarded]) == ()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.text(
            st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20
        ).filter(lambda name: name not in (".", "..") and len(name.encode()) < 200),
        unique=True,
        max_size=5,
    )
)
def test_any_name_is_kept(tmp_path_factory: pytest.TempPathFactory, wanted: list[str]) -> None:
    """Names come back as they are, sorted, each with its own contents."""
    root = tmp_path_factory.mktemp("root")
    for name in wanted:
        (root / name).write_bytes(name.encode())

    found = mounted_files(HostMount("."), [root])

    assert [(file.name, contents(file)) for file in found] == [
        (name, name.encode()) for name in sorted(wanted)
    ]


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
