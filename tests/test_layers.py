"""The contract of the layers fails on an upward import and on a cycle."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
SECTION_ALIAS = ("toolcrib.tools.web_search", "toolcrib.prompt.web_search_section")
UPWARD_EXPORTS = {
    SECTION_ALIAS,
    ("toolcrib.tools", "toolcrib.adapters.openai.code_interpreter_tool"),
}
"""The documented import paths of classes that live in a higher layer."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package, with the contract of the repository."""
    shutil.copytree(
        ROOT / "src" / "toolcrib",
        tmp_path / "src" / "toolcrib",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run `lint-imports` as `make lint` does, on the copy."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )


def add_import(tree: Path, importer: str, imported: str) -> None:
    """Import a module inside of a function, where no import error shows the cycle."""
    path = tree / "src" / Path(*importer.split(".")).with_suffix(".py")
    path.write_text(f"{path.read_text('utf-8')}\n\ndef _late():\n    import {imported}\n", "utf-8")


def test_the_package_keeps_the_contract(tree: Path) -> None:
    """Without a change nothing is reported, so the failures below are of the added imports."""
    report = lint(tree)

    assert report.returncode == 0, report.stdout


def test_an_upward_import_fails(tree: Path) -> None:
    """A layer that imports one above it is named, also when the import is late."""
    add_import(tree, "toolcrib.ledger.record", "toolcrib.runtime.service")
    report = lint(tree)

    assert report.returncode == 1
    assert "toolcrib.ledger.record -> toolcrib.runtime.service" in report.stdout


def test_an_import_between_two_packages_of_one_layer_fails(tree: Path) -> None:
    """Packages that share a layer are independent of each other."""
    add_import(tree, "toolcrib.mcp_client.config", "toolcrib.sandbox.command")
    report = lint(tree)

    assert report.returncode == 1
    assert "toolcrib.mcp_client.config -> toolcrib.sandbox.command" in report.stdout


@pytest.mark.parametrize(
    ("package", "importer", "imported"),
    [
        ("serving", "serving.origins", "serving.tokens"),
        ("adapters", "adapters.options", "adapters.openai.request"),
        ("toolsets", "toolsets.run_executor", "toolsets.agent_bridge.values"),
    ],
)
def test_a_cycle_between_two_modules_of_a_package_fails(
    tree: Path, package: str, importer: str, imported: str
) -> None:
    """Within a package the order is free, but there is one."""
    add_import(tree, f"toolcrib.{importer}", f"toolcrib.{imported}")
    add_import(tree, f"toolcrib.{imported}", f"toolcrib.{importer}")
    report = lint(tree)

    assert report.returncode == 1
    assert f"No cycles are allowed in toolcrib.{package}." in report.stdout


def lazy_exports() -> Iterator[tuple[str, str]]:
    """Each package with the modules that its table of lazy exports names. Such a module is imported
    by a string, which import-linter does not see.
    """
    for path in (ROOT / "src").rglob("__init__.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="lazy_exports"), args=[_, table]):
                    package = ".".join(path.parent.relative_to(ROOT / "src").parts)
                    for module in ast.literal_eval(table):
                        yield package, module
                case _:
                    pass


def test_lazy_exports_point_down_but_for_two_documented_paths() -> None:
    """A table of lazy exports is no way around the layers."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers: list[str] = contracts["contracts"][0]["layers"]
    height = {
        f"toolcrib.{package}": -row
        for row, layer in enumerate(layers)
        for package in layer.split(" | ")
    }

    def height_of(module: str) -> int:
        return height[".".join(module.split(".")[:2])]

    exports = [(package, module) for package, module in lazy_exports() if package != "toolcrib"]
    upward = {
        (package, module) for package, module in exports if height_of(module) > height_of(package)
    }

    assert len(exports) > 100
    assert upward == UPWARD_EXPORTS


def test_no_module_imports_itself_through_others_but_for_one_alias() -> None:
    """The order holds between single modules too, late imports and lazy exports included: only the
    section of web search is also exported by the tool that it is built from.
    """
    graph = grimp.build_graph("toolcrib", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    for package, module in lazy_exports():
        imports[package].add(module)

    with pytest.raises(CycleError) as cycle:
        TopologicalSorter(imports).prepare()
    assert set(cycle.value.args[1]) == set(SECTION_ALIAS)

    package, module = SECTION_ALIAS
    imports[package].remove(module)
    TopologicalSorter(imports).prepare()


def test_make_lint_checks_the_contract() -> None:
    """A contract that nobody runs holds nothing."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = makefile.split("\nlint:")[1].split("\n\n")[0]

    assert "lint-imports" in recipe
