"""Which files of the host go to a container: checked before anything is sent."""

import os
from pathlib import Path

import pytest

from toolcrib.adapters.openai import host_files
from toolcrib.adapters.openai.host_files import HostFiles, Plan, plan_files
from toolcrib.errors import UsageError
from toolcrib.tools import HostMount, OpenAICodeInterpreterTool, VfsPath
from toolcrib.tools.code_interpreter import AutoContainer, Container, ExistingContainer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("m/a.csv", "m/lib/b.py", "other/a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def planned(
    root: Path,
    *mounts: HostMount,
    container: Container | None = None,
    allowed: HostFiles | None = None,
) -> Plan:
    tool = OpenAICodeInterpreterTool(
        name="python", host_mounts=mounts, container=container or AutoContainer()
    )
    return plan_files(tool, allowed or HostFiles((root,)))


def names(plan: Plan) -> list[str]:
    return [name for name, _ in plan.files]


def test_files_are_known_by_the_paths_of_their_mounts(root: Path) -> None:
    """C28, P11: `mount_path` is what a prompt calls a file; without it, a file is at the top."""
    shown = HostMount("m", VfsPath(("workspace", "m")))

    assert names(planned(root, shown)) == ["/workspace/m/a.csv", "/workspace/m/lib/b.py"]
    assert names(planned(root, HostMount("m"))) == ["/a.csv", "/lib/b.py"]
    assert names(planned(root, HostMount("m/a.csv", VfsPath(("in",))))) == ["/in/a.csv"]


def test_two_files_at_one_path_are_refused(root: Path) -> None:
    """One would hide the other; the same file twice is no conflict."""
    with pytest.raises(UsageError, match=r"two host mounts have a file at '/a\.csv'"):
        planned(root, HostMount("m"), HostMount("other"))
    twice = planned(root, HostMount("m"), HostMount("m/a.csv"))
    assert names(twice) == ["/a.csv", "/lib/b.py"]


def test_a_mount_without_files_is_a_mistake(root: Path) -> None:
    """P12: a pattern that leaves nothing is told, not passed over."""
    with pytest.raises(UsageError, match=r"'m' holds no file that include_glob"):
        planned(root, HostMount("m", include_glob=("*.txt",)))


def test_empty_files_are_listed_apart(root: Path) -> None:
    """The provider refuses files without a byte, so they are told and not sent."""
    (root / "m" / "lib" / "__init__.py").touch()
    (root / "m" / ".gitkeep").touch()

    plan = planned(root, HostMount("m"))

    assert names(plan) == ["/a.csv", "/lib/b.py"]
    assert plan.empty == ("/.gitkeep", "/lib/__init__.py")


def test_types_are_checked(root: Path) -> None:
    """C30: an unsupported type refuses the plan; another table may take it."""
    (root / "m" / ".env").write_text("KEY=1")

    with pytest.raises(UsageError, match=r"'python'.*not uploaded: /\.env\."):
        planned(root, HostMount("m"))
    assert "/.env" in names(
        planned(root, HostMount("m"), allowed=HostFiles((root,), frozenset({"*"})))
    )


def test_a_container_is_made_with_fifty_files_at_most(root: Path) -> None:
    """C27: files given by id count too; an existing container has no such limit."""
    for number in range(46):
        (root / "m" / f"{number}.txt").write_text("x")
    given = AutoContainer(file_ids=("file_1", "file_2"))

    assert len(planned(root, HostMount("m"), container=given).files) == 48
    (root / "m" / "more.txt").write_text("x")
    with pytest.raises(UsageError, match=r"hold 49 files, and 2 are given by id; .* 50 at most"):
        planned(root, HostMount("m"), container=given)
    assert len(planned(root, HostMount("m"), container=ExistingContainer("c")).files) == 49


def test_a_file_that_the_provider_cannot_take_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit for one file is known beforehand."""
    monkeypatch.setattr(host_files, "LARGEST_FILE", 7)

    with pytest.raises(UsageError, match=r"'/lib/b\.py' has 10 bytes; one file can have 7"):
        planned(root, HostMount("m"))


@pytest.mark.parametrize("name", ["a\nb.csv", "a\u202eb.csv", "a\\b.csv", os.fsdecode(b"\xff.csv")])
def test_a_name_that_could_pass_for_more_is_refused(root: Path, name: str) -> None:
    """A name stands in a prompt: no line break, no hidden character, no second path."""
    (root / "m" / name).write_text("x")

    with pytest.raises(UsageError, match="is not a name"):
        planned(root, HostMount("m"))


def test_roots_and_budgets_are_checked(root: Path) -> None:
    """C28: what a mount may not read is refused here, too."""
    with pytest.raises(UsageError, match="outside the allowed roots: none"):
        planned(root, HostMount("m"), allowed=HostFiles())
    with pytest.raises(UsageError, match="max_bytes is 3"):
        planned(root, HostMount("m", max_bytes=3))
