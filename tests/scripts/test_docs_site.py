"""The documentation site: its reference has every public name, its links work in both places."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.docs_site import (
    ROOT,
    ROOT_PAGES,
    SOURCE,
    external_assets,
    missing_names,
    public_names,
    reference_page,
    site_link,
)


def test_a_package_is_public_by_its_exports(tmp_path: Path) -> None:
    """A package without `__all__`, or with a private name, has no page."""
    for package, text in {
        "toolcrib": "__all__ = ['tool', '__version__']\n",
        "toolcrib/silent": "",
        "toolcrib/_private": "__all__ = ['x']\n",
    }.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(text)
    (tmp_path / "toolcrib" / "context.py").write_text("class AgentContext: ...\ndef _f(): ...\n")
    (tmp_path / "toolcrib" / "errors.py").write_text("__all__ = ['Bad']\nclass Bad: ...\n")

    assert public_names(tmp_path) == {
        "toolcrib": ("tool",),
        "toolcrib.context": ("AgentContext",),
        "toolcrib.errors": ("Bad",),
    }


def test_the_package_has_its_documented_public_names() -> None:
    """The reference is built from the real package."""
    names = public_names(SOURCE)

    assert {"Executor", "Session", "tool"} <= set(names["toolcrib"])
    assert "ToolcribError" in names["toolcrib.errors"]
    assert "OpenAIAdapter" in names["toolcrib.adapters.openai"]


def test_a_name_behind_a_module_of_that_name_gets_an_entry_of_its_own(tmp_path: Path) -> None:
    """A reader of the source takes `toolcrib.x.run` for the module, not for the function in it."""
    (tmp_path / "toolcrib" / "x").mkdir(parents=True)
    (tmp_path / "toolcrib" / "x" / "run.py").touch()

    page = reference_page(tmp_path, "toolcrib.x", ("other", "run"))

    assert "::: toolcrib.x\n    options:\n      members:\n        - other\n" in page
    assert "::: toolcrib.x.run.run\n" in page


def test_a_public_name_without_an_entry_is_reported(tmp_path: Path) -> None:
    """The builder leaves out silently what it does not find."""
    page = tmp_path / "reference" / "toolcrib.x.html"
    page.parent.mkdir()
    page.write_text('<h2 id="toolcrib.x.a"></h2><h2 id="toolcrib.x.b.b"></h2>')

    missing = missing_names(tmp_path, {"toolcrib.x": ("a", "b", "c")})

    assert list(missing) == ["toolcrib.x.c is not in the API reference"]


@pytest.mark.parametrize(
    ("element", "is_external"),
    [
        ('<script src="https://cdn.example/x.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', True),
        ('<img src="http://example.org/x.png">', True),
        ('<link rel="canonical" href="https://docs.example/">', False),
        ('<script src="assets/x.js"></script>', False),
        ('<a href="https://example.org">link</a>', False),
    ],
)
def test_a_page_that_loads_from_elsewhere_is_reported(
    tmp_path: Path, element: str, is_external: bool
) -> None:
    """The site works without a network and tells no other host who reads it."""
    (tmp_path / "index.html").write_text(element)

    assert bool(list(external_assets(tmp_path))) is is_external


@pytest.mark.parametrize(
    ("page", "link", "target"),
    [
        ("contributing.md", "docs/tools.md", "tools.md"),
        ("contributing.md", "SECURITY.md", "reporting.md"),
        ("security.md", "../SECURITY.md", "reporting.md"),
        ("security.md", "../README.md", "index.md"),
        ("security.md", "mcp.md", "mcp.md"),
        ("security.md", "../examples/x.py", "../examples/x.py"),
    ],
)
def test_a_link_of_the_repository_leads_to_the_page_of_the_site(
    page: str, link: str, target: str
) -> None:
    """Pages keep the links that work on a code host. Others stay, and fail the strict build."""
    assert site_link(link, page=page) == target


def test_the_navigation_has_every_page_once() -> None:
    """A page that is added, renamed or removed follows in mkdocs.yml."""
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}

    navigation = re.findall(r"^ +- .+: (\S+\.md)$", config, re.MULTILINE)

    assert sorted(navigation) == sorted(pages | set(ROOT_PAGES.values()))


def test_a_broken_link_fails_the_build_of_the_makefile(tmp_path: Path) -> None:
    """`make docs` counts warnings as errors. With --quiet it would not even see them."""
    recipe = re.search(r"mkdocs (build .*)", (ROOT / "Makefile").read_text("utf-8"))
    assert recipe is not None
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("# Start\n\n[a place that is not there](#nowhere)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {pages}\nsite_dir: {tmp_path / 'site'}\n"
        "hooks: []\nplugins: []\nnav: [index.md]\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *shlex.split(recipe[1]), "--config-file", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert "#nowhere" in done.stderr
