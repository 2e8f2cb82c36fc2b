"""Importing handlers, and loading changed modules beside the old ones."""

from __future__ import annotations

import sys

import pytest

from tests.host_tools.project import Project
from toolcrib.errors import InvalidTool
from toolcrib.host_tools.python_modules import import_named, reloaded, source_file


def test_the_source_of_a_module_is_its_file(project: Project) -> None:
    """Whether it is imported already or not; what has no source of its own has none."""
    file = project.write("app/tools.py", "x = 1")
    project.write("app/__init__.py", "")
    project.write("broken/__init__.py", "1 / 0")
    project.write("broken/tools.py", "x = 1")

    assert source_file("app.tools") == file
    import_named("app.tools")
    assert source_file("app.tools") == file
    for name in ("sys", "no_such_app", "broken.tools"):
        assert source_file(name) is None


def test_a_module_loaded_anew_takes_the_place_everywhere(project: Project) -> None:
    """Also as the attribute of its package, and for whoever imports it from now on."""
    project.write("app/__init__.py", "")
    project.write("app/tools.py", "word = 'old'")
    old, package = import_named("app.tools"), import_named("app")

    project.write("app/tools.py", "word = 'new'")
    with reloaded(["app.tools", "sys", "no_such_app"]):
        pass

    assert (old.word, import_named("app.tools").word) == ("old", "new")
    assert vars(package)["tools"] is sys.modules["app.tools"]


def test_the_old_modules_are_back_after_a_failure(project: Project) -> None:
    """All of them, whichever failed, and also when the block does."""
    for name in ("one", "two"):
        project.write(f"app_{name}.py", "x = 1")
        import_named(f"app_{name}")
    before = [sys.modules["app_one"], sys.modules["app_two"]]
    project.write("app_one.py", "x = 2")

    with pytest.raises(LookupError), reloaded(["app_one", "app_two"]):
        raise LookupError
    project.write("app_two.py", "x = (")
    with (
        pytest.raises(InvalidTool, match="cannot reload 'app_two': SyntaxError"),
        reloaded(["app_one", "app_two"]),
    ):
        pass

    assert [sys.modules["app_one"], sys.modules["app_two"]] == before
