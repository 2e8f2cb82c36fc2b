"""Allowed roots: where a mount's path lies, and what lies outside."""

from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import UsageError
from toolcrib.vfs.roots import HostPath, check_roots, find_host_path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.csv").write_text("1")
    return folder


def test_roots_do_not_move_with_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative root is where it was when it was allowed."""
    monkeypatch.chdir(tmp_path)
    roots = check_roots(("data", Path("more")))
    monkeypatch.chdir("/")

    assert roots == (tmp_path / "data", tmp_path / "more")


@pytest.mark.parametrize("roots", ["data", Path("data"), (1,), ("",)])
def test_what_is_no_tuple_of_folders_is_refused(roots: Any) -> None:
    """A single string would otherwise be taken for one root a letter."""
    with pytest.raises(UsageError, match="host_roots"):
        check_roots(roots)


@pytest.mark.parametrize("wanted", ["data/a.csv", "{root}/data/a.csv"])
def test_a_path_is_found_relative_or_absolute(root: Path, wanted: str) -> None:
    """Both name the same place."""
    place = find_host_path(wanted.format(root=root), [root], follow_symlinks=False)

    assert place == HostPath(root, ("data", "a.csv"))
    assert place.path.read_text() == "1"


def test_the_first_root_that_has_it_counts(root: Path, tmp_path: Path) -> None:
    """Roots are tried in their order."""
    other = tmp_path / "other"
    (other / "data").mkdir(parents=True)

    assert find_host_path("data", [other, root], follow_symlinks=False).root == other
    assert find_host_path("data/a.csv", [other, root], follow_symlinks=False).root == root


def test_a_root_may_be_a_link(root: Path, tmp_path: Path) -> None:
    """The way to a root is the host's own choice."""
    (tmp_path / "linked").symlink_to(root)

    for wanted in ("data", f"{tmp_path}/linked/data", f"{root}/data"):
        place = find_host_path(wanted, [tmp_path / "linked"], follow_symlinks=False)
        assert place == HostPath(root, ("data",))


def test_outside_every_root_is_refused(root: Path, tmp_path: Path) -> None:
    """C28: nothing outside is read, and the error says what is allowed and what to do."""
    (tmp_path / "secret").write_text("x")

    with pytest.raises(UsageError, match=r"outside the allowed roots: .*root; allow .*host_roots"):
        find_host_path(str(tmp_path / "secret"), [root], follow_symlinks=True)


def test_a_name_that_only_starts_like_a_root_is_outside(root: Path, tmp_path: Path) -> None:
    """`/root-2` does not lie in `/root`."""
    (tmp_path / "root-2").mkdir()

    with pytest.raises(UsageError, match="outside the allowed roots"):
        find_host_path(str(tmp_path / "root-2"), [root], follow_symlinks=True)


def test_without_roots_everything_is_outside() -> None:
    """No root means no file."""
    with pytest.raises(UsageError, match="outside the allowed roots: none"):
        find_host_path("data", [], follow_symlinks=False)


def test_a_missing_path_is_named(root: Path) -> None:
    """What is not there is an error, not an empty mount."""
    with pytest.raises(UsageError, match=r"'dta': there is no such file or folder .*root"):
        find_host_path("dta", [root], follow_symlinks=False)


def test_a_missing_root_is_named(tmp_path: Path) -> None:
    """A root that is gone, or is a file, is told apart from a missing mount."""
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match=r"host root '.*gone': No such file"):
        find_host_path("data", [tmp_path / "gone"], follow_symlinks=False)
    with pytest.raises(UsageError, match=r"host root '.*file' is not a folder"):
        find_host_path("data", [tmp_path / "file"], follow_symlinks=False)


def test_a_link_that_leads_out_is_refused_even_when_links_are_followed(
    root: Path, tmp_path: Path
) -> None:
    """A link in a root cannot widen it."""
    (tmp_path / "secret").mkdir()
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "broken").symlink_to("nowhere")

    for wanted in ("out", "broken"):
        with pytest.raises(UsageError, match="leads out of the allowed roots, or nowhere"):
            find_host_path(wanted, [root], follow_symlinks=True)


def test_a_link_inside_is_followed_only_when_asked(root: Path) -> None:
    """`follow_symlinks` also holds for the way to the mount itself."""
    (root / "alias").symlink_to("data")

    with pytest.raises(UsageError, match="follow_symlinks=True"):
        find_host_path("alias/a.csv", [root], follow_symlinks=False)
    place = find_host_path("alias/a.csv", [root], follow_symlinks=True)
    assert place == HostPath(root, ("data", "a.csv"))
