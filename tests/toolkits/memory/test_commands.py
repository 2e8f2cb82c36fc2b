"""Memory: the model's notes, in files under one directory and nowhere else."""

import asyncio
import dataclasses
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

from tests.calls.runs import run
from toolcrib import Executor, Session
from toolcrib.errors import InvalidTool
from toolcrib.toolkits.memory import (
    MemoryConfig,
    MemoryHandler,
    MemoryParams,
    MemoryResult,
    memory_tool,
)
from toolcrib.toolkits.memory.files import MemoryFiles
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.result import ToolResult


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def ask(root: Path, command: Any, **fields: Any) -> ToolResult[MemoryResult]:
    return MemoryHandler(MemoryConfig(str(root)))(MemoryParams(command, **fields))


def done(root: Path, command: Any, **fields: Any) -> str:
    result = ask(root, command, **fields)
    assert result.success, result.message
    assert result.value is not None
    return result.value.render()


def refused(root: Path, command: Any, **fields: Any) -> str:
    result = ask(root, command, **fields)
    assert not result.success
    assert result.value is None
    return result.message


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_it_is_a_tool_of_one_provider_that_runs_here(root: Path) -> None:
    """P3: the provider defines its shape and its name, this process runs it."""
    tool = memory_tool(root)

    assert isinstance(tool, ProviderTool)
    assert (tool.provider, tool.place, tool.name) == ("anthropic", "local", "memory")
    assert (tool.params_type, tool.result_type) == (MemoryParams, MemoryResult)
    assert (tool.config, tool.one_at_a_time) == (MemoryConfig(str(root)), True)
    assert memory_tool(MemoryConfig(str(root), max_bytes=5)).config.max_bytes == 5
    assert not tool.requires_approval
    assert memory_tool(root, requires_approval=True).requires_approval


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("root", "notes"),
        ("root", None),
        ("max_bytes", 0),
        ("max_total_bytes", None),
        ("max_entries", True),
    ],
)
def test_options_that_make_no_sense_are_refused(field: str, value: Any) -> None:
    """H2: a relative root would move with the program, a cap of nothing keeps nothing."""
    with pytest.raises(InvalidTool, match=rf"MemoryConfig\.{field}"):
        dataclasses.replace(MemoryConfig("/tmp"), **{field: value})


async def test_it_runs_through_the_executor(root: Path) -> None:
    """R45: a command is validated, run and recorded like any call."""
    made = await run(
        memory_tool(root), {"command": "create", "path": "/memories/a.md", "file_text": "one\n"}
    )
    assert made.outcome.text == "File created successfully at: /memories/a.md"
    assert (root / "a.md").read_text() == "one\n"

    wrong = await run(memory_tool(root), {"command": "erase", "path": "/memories/a.md"})
    assert wrong.outcome.status == "failed"


def test_a_new_memory_is_empty_and_private(root: Path) -> None:
    """The root is made when it is missing, for its owner only."""
    text = done(root, "view", path="/memories")

    assert text.startswith("Here're the files and directories up to 2 levels deep in /memories")
    assert len(text.splitlines()) == 2
    assert root.stat().st_mode & 0o077 == 0


def test_a_directory_shows_two_levels_without_what_is_hidden(root: Path) -> None:
    """The model sees names with sizes; hidden names and links are none of its notes."""
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "deep.md").write_text("x")
    (root / "a" / "n.md").write_bytes(b"x" * 1536)
    (root / ".hidden").write_text("x")
    (root / "link").symlink_to("/etc/passwd")

    shown = [line.split("\t") for line in done(root, "view", path="/memories").splitlines()[2:]]

    assert [name for _, name in shown] == ["/memories/a/", "/memories/a/b/", "/memories/a/n.md"]
    assert shown[-1][0] == "1.5K"


def test_lines_are_numbered_and_can_be_picked(root: Path) -> None:
    """A range is inclusive, starts at one, and -1 is the end."""
    done(root, "create", path="/memories/a", file_text="one\ntwo\nthree")

    assert done(root, "view", path="/memories/a") == (
        "Here's the content of /memories/a with line numbers:\n"
        "     1\tone\n     2\ttwo\n     3\tthree"
    )
    assert done(root, "view", path="/memories/a", view_range=[2, 2]).endswith(":\n     2\ttwo")
    assert done(root, "view", path="/memories/a", view_range=[2, -1]).endswith("\n     3\tthree")
    assert "[2]" in refused(root, "view", path="/memories/a", view_range=[2])


def test_a_file_is_never_created_over(root: Path) -> None:
    """Creating is not editing: what is there stays."""
    done(root, "create", path="/memories/d/a", file_text="old")

    assert refused(root, "create", path="/memories/d/a", file_text="new") == (
        "File /memories/d/a already exists"
    )
    assert refused(root, "create", path="/memories/d", file_text="x").endswith("already exists")
    assert files_in(root) == {"d/a": b"old"}


def test_a_text_is_replaced_where_it_stands_once(root: Path) -> None:
    """The answer shows the lines around the change; an ambiguous text changes nothing."""
    done(root, "create", path="/memories/a", file_text="1\n2\n3\n4\n5\n6\n")

    assert done(root, "str_replace", path="/memories/a", old_str="4", new_str="four\nvier") == (
        "The memory file has been edited. Here is the snippet showing the change "
        "(with line numbers):\n     2\t2\n     3\t3\n     4\tfour\n     5\tvier\n     6\t5"
    )
    assert refused(root, "str_replace", path="/memories/a", old_str="9", new_str="x") == (
        "No replacement was performed, old_str `9` did not appear verbatim in /memories/a."
    )
    assert refused(root, "str_replace", path="/memories/a", old_str="", new_str="x")
    assert refused(root, "str_replace", path="/memories/a", old_str="\n", new_str="x") == (
        "No replacement was performed. Multiple occurrences of old_str `\n` in lines: "
        "1, 2, 3, 4, 5, 6, 7. Please ensure it is unique"
    )
    assert files_in(root) == {"a": b"1\n2\n3\nfour\nvier\n5\n6\n"}
    done(root, "str_replace", path="/memories/a", old_str="vier\n")
    assert files_in(root) == {"a": b"1\n2\n3\nfour\n5\n6\n"}


def test_very_many_places_are_not_all_listed(root: Path) -> None:
    """What the model is told of a text that is everywhere stays short, and is soon found."""
    done(root, "create", path="/memories/a", file_text="x\n" * 100_000)

    said = refused(root, "str_replace", path="/memories/a", old_str="x", new_str="y")

    assert said.endswith("99, 100, .... Please ensure it is unique")


def test_a_text_is_inserted_after_a_line(root: Path) -> None:
    """Line 0 is the beginning; a line that is not there changes nothing."""
    done(root, "create", path="/memories/a", file_text="1\n2")

    assert done(root, "insert", path="/memories/a", insert_line=0, insert_text="0\n") == (
        "The file /memories/a has been edited."
    )
    done(root, "insert", path="/memories/a", insert_line=3, insert_text="3")
    assert files_in(root) == {"a": b"0\n1\n2\n3\n"}
    for line in (-1, 5, None):
        said = refused(root, "insert", path="/memories/a", insert_line=line, insert_text="x")
        assert said == (
            f"Invalid `insert_line` parameter: {line}. It should be within the range [0, 4]."
        )


def test_files_and_directories_are_deleted(root: Path) -> None:
    """A directory goes with all that is in it; the root itself stays."""
    done(root, "create", path="/memories/d/e/a", file_text="x")
    done(root, "create", path="/memories/b", file_text="x")

    assert done(root, "delete", path="/memories/d") == "Successfully deleted /memories/d"
    assert done(root, "delete", path="/memories/b") == "Successfully deleted /memories/b"
    assert list(root.iterdir()) == []
    assert refused(root, "delete", path="/memories/b") == "The path /memories/b does not exist"
    assert refused(root, "delete", path="/memories/") == (
        "Cannot delete the /memories directory itself"
    )


def test_files_and_directories_are_renamed_but_never_onto_others(root: Path) -> None:
    """What is there already is not lost."""
    done(root, "create", path="/memories/d/a", file_text="a")
    done(root, "create", path="/memories/b", file_text="b")

    assert done(root, "rename", old_path="/memories/d", new_path="/memories/x/d") == (
        "Successfully renamed /memories/d to /memories/x/d"
    )
    done(root, "rename", old_path="/memories/b", new_path="/memories/y/b")
    assert files_in(root) == {"x/d/a": b"a", "y/b": b"b"}
    assert refused(root, "rename", old_path="/memories/y/b", new_path="/memories/x/d/a") == (
        "The destination /memories/x/d/a already exists"
    )
    assert refused(root, "rename", old_path="/memories/x", new_path="/memories/y") == (
        "The destination /memories/y already exists"
    )
    assert refused(root, "rename", old_path="/memories/no", new_path="/memories/z") == (
        "The path /memories/no does not exist"
    )
    assert "itself" in refused(root, "rename", old_path="/memories/x", new_path="/memories/x/z")
    assert "itself" in refused(root, "rename", old_path="/memories", new_path="/memories/z")
    assert files_in(root) == {"x/d/a": b"a", "y/b": b"b"}


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/memoriesx/a",
        "memories/a",
        "a",
        "",
        "/",
        "/memories/../secret",
        "/memories/a/../../secret",
        "/memories//a",
        "/memories/a\\..\\b",
        "/memories/a\0b",
        "/memories/%2e%2e/secret\n",
    ],
)
def test_nothing_outside_the_root_has_a_name(root: Path, path: str) -> None:
    """R45: a path that climbs, or starts elsewhere, is refused before anything is opened."""
    (root.parent / "secret").write_text("secret")

    for command, fields in (
        ("view", {"path": path}),
        ("create", {"path": path, "file_text": "x"}),
        ("delete", {"path": path}),
        ("rename", {"old_path": path, "new_path": "/memories/a"}),
        ("rename", {"old_path": "/memories/a", "new_path": path}),
    ):
        assert "/memories" in refused(root, command, **fields)
    assert (root.parent / "secret").read_text() == "secret"
    assert not root.exists()


def test_links_lead_nowhere(root: Path, tmp_path: Path) -> None:
    """A link in the root is not followed, whether it is a file, a directory or on the way."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    root.mkdir()
    (root / "file").symlink_to(outside / "secret")
    (root / "dir").symlink_to(outside)

    for path in ("/memories/file", "/memories/dir", "/memories/dir/secret"):
        assert refused(root, "view", path=path)
        assert refused(root, "str_replace", path=path, old_str="secret", new_str="x")
        assert refused(root, "insert", path=path, insert_line=0, insert_text="x")
    assert "symbolic link" in refused(root, "create", path="/memories/dir/new", file_text="x")
    assert refused(root, "rename", old_path="/memories/dir/secret", new_path="/memories/mine")
    assert refused(root, "delete", path="/memories/dir/secret")
    done(root, "delete", path="/memories/dir")

    assert files_in(outside) == {"secret": b"secret"}
    assert not (root / "dir").is_symlink()


def test_a_directory_with_a_link_in_it_is_deleted_alone(root: Path, tmp_path: Path) -> None:
    """What a link points at is not part of a directory."""
    (tmp_path / "kept").write_text("kept")
    (root / "d").mkdir(parents=True)
    (root / "d" / "link").symlink_to(tmp_path)

    done(root, "delete", path="/memories/d")

    assert (tmp_path / "kept").read_text() == "kept"


def write_bytes(path: str) -> None:
    Path(path).write_bytes(b"\xff")


@pytest.mark.parametrize("make", [os.mkfifo, write_bytes])
def test_what_is_no_text_is_refused(root: Path, make: Callable[[str], object]) -> None:
    """A pipe does not block, and bytes that are no text are not mangled."""
    root.mkdir()
    make(str(root / "odd"))

    assert refused(root, "view", path="/memories/odd")
    assert refused(root, "str_replace", path="/memories/odd", old_str="x", new_str="y")
    assert refused(root, "create", path="/memories/new", file_text="\ud800")
    assert [path.name for path in root.iterdir()] == ["odd"]


def test_growth_is_limited(root: Path) -> None:
    """A file, all files together and their number have caps; nothing passes one."""
    keeper = MemoryHandler(MemoryConfig(str(root), max_bytes=10, max_total_bytes=15, max_entries=3))

    def create(path: str, size: int) -> bool:
        return keeper(MemoryParams("create", f"/memories/{path}", file_text="x" * size)).success

    assert not create("big", 11)
    assert create("d/a", 10)
    assert not create("b", 6)
    assert create("b", 5)
    assert not create("c", 0)
    assert not keeper(
        MemoryParams("insert", "/memories/b", insert_line=0, insert_text="x" * 4)
    ).success
    assert not keeper(
        MemoryParams("rename", old_path="/memories/b", new_path="/memories/e/b")
    ).success
    assert keeper(MemoryParams("rename", old_path="/memories/b", new_path="/memories/c")).success
    assert files_in(root) == {"d/a": b"x" * 10, "c": b"x" * 5}


def test_a_file_too_large_to_read_is_refused(root: Path) -> None:
    """Somebody else may have put it there."""
    root.mkdir()
    (root / "big").write_bytes(b"x" * 11)
    keeper = MemoryHandler(MemoryConfig(str(root), max_bytes=10))

    assert "10 bytes" in keeper(MemoryParams("view", "/memories/big")).message


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("view", "path"),
        ("create", "path"),
        ("str_replace", "old_str"),
        ("insert", "path"),
        ("delete", "path"),
        ("rename", "old_path"),
    ],
)
def test_a_command_says_what_it_needs(root: Path, command: str, missing: str) -> None:
    """A call without a field that its command needs is told which."""
    assert refused(root, command) == f"The command {command} needs `{missing}`."


def test_a_reader_sees_the_old_or_the_new_file(root: Path) -> None:
    """A change is atomic: whoever reads meanwhile never sees a part of it."""
    old, new = "old " * 50_000, "new " * 50_000
    done(root, "create", path="/memories/a", file_text=old)
    seen: set[str] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add((root / "a").read_text())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(5):
        done(root, "str_replace", path="/memories/a", old_str=old, new_str=new)
        done(root, "str_replace", path="/memories/a", old_str=new, new_str=old)
    stop.set()
    watcher.join()

    assert seen <= {old, new}
    assert [path.name for path in root.iterdir()] == ["a"]


async def test_calls_at_the_same_time_undo_nothing(root: Path) -> None:
    """One at a time: no insert is lost."""
    done(root, "create", path="/memories/a", file_text="")
    executor = Executor(Session(), [memory_tool(root)])
    arguments = {"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"}

    await asyncio.gather(*(executor.call("memory", arguments) for _ in range(10)))

    assert (root / "a").read_text() == "x\n" * 10


def test_a_file_that_changed_meanwhile_is_not_overwritten(root: Path) -> None:
    """A note of another process is not lost to a change that did not see it."""
    done(root, "create", path="/memories/a", file_text="old")
    files = MemoryFiles(MemoryConfig(str(root)))
    (root / "a").write_text("theirs")

    with pytest.raises(OSError, match="has changed since it was read"):
        files.replace(("a",), b"old", b"new")
    assert files_in(root) == {"a": b"theirs"}


def command(name: str, path: str = "", **fields: Any) -> dict[str, Any]:
    return {"command": name, **({"path": f"/memories{path}"} if name != "rename" else {}), **fields}


def rename(old: str, new: str) -> dict[str, Any]:
    return command("rename", old_path=f"/memories{old}", new_path=f"/memories{new}")


TOLD = [
    command("view"),
    command("view", "/none"),
    command("create", "/a.md", file_text="one\ntwo\ntwo\n"),
    command("create", "/a.md", file_text="again"),
    command("create", "/d/e/f/deep.md", file_text="x" * 3000),
    command("create", "/empty", file_text=""),
    command("create", "/crlf", file_text="one\r\ntwo"),
    command("view"),
    command("view", "/d"),
    command("view", "/a.md"),
    command("view", "/a.md", view_range=[2, 3]),
    command("view", "/a.md", view_range=[0, -1]),
    command("view", "/a.md", view_range=[3, 99]),
    command("view", "/a.md", view_range=[9, 10]),
    command("view", "/empty"),
    command("str_replace", "/a.md", old_str="one", new_str="1\nuno"),
    command("str_replace", "/a.md", old_str="two", new_str="2"),
    command("str_replace", "/a.md", old_str="three", new_str="3"),
    command("str_replace", "/none", old_str="a", new_str="b"),
    command("str_replace", "/d", old_str="a", new_str="b"),
    command("str_replace", "/crlf", old_str="\r", new_str=""),
    command("insert", "/a.md", insert_line=0, insert_text="zero\n"),
    command("insert", "/a.md", insert_line=5, insert_text="end"),
    command("insert", "/a.md", insert_line=99, insert_text="x"),
    command("insert", "/a.md", insert_line=-1, insert_text="x"),
    command("insert", "/empty", insert_line=0, insert_text="first"),
    command("insert", "/empty", insert_line=1, insert_text="\n\n"),
    command("insert", "/none", insert_line=0, insert_text="x"),
    command("insert", "/d", insert_line=0, insert_text="x"),
    command("view", "/a.md"),
    rename("/a.md", "/empty"),
    rename("/a.md", "/d/a.md"),
    rename("/none", "/b"),
    rename("/d/e", "/g"),
    rename("", "/h"),
    command("delete", "/g/f"),
    command("delete", "/g"),
    command("delete", "/g"),
    command("delete"),
    command("view"),
]


def test_it_does_and_says_what_anthropic_does(tmp_path: Path) -> None:
    """The model was trained on these words, so they are those of Anthropic's own implementation."""
    theirs = BetaLocalFilesystemMemoryTool(str(tmp_path / "theirs"))
    ours = MemoryHandler(MemoryConfig(str(tmp_path / "ours")))
    for told in TOLD:
        result = ours(MemoryParams(**told))
        try:
            said, failed = theirs.call(told), False
        except ToolError as error:
            said, failed = str(error), True

        assert (result.value.render() if result.value else result.message) == said
        assert result.success is not failed
        assert files_in(tmp_path / "ours") == files_in(tmp_path / "theirs" / "memories")
