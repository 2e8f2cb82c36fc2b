"""Pages and examples use the public surface only: packages with an `__all__`, and two modules."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import toolcrib
from tests.docs_runner import Block, read_all_blocks

ROOT = Path(__file__).parents[1]
PUBLIC_MODULES = ("toolcrib.context", "toolcrib.errors")
"""Public modules that are no packages; every top-level name in them is public."""

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "src/toolcrib/cli/project").rglob("*.py")),
]
PACKAGES = [
    "toolcrib",
    *(found.name for found in pkgutil.walk_packages(toolcrib.__path__, "toolcrib.") if found.ispkg),
]
PUBLIC_PACKAGES = [name for name in PACKAGES if hasattr(import_module(name), "__all__")]


def blocks_of(file: Path) -> tuple[Block, ...]:
    if file.suffix == ".md":
        return read_all_blocks(file)
    return (Block(file, 1, file.read_text("utf-8")),)


def imported_names(block: Block) -> Iterator[tuple[int, str, str | None]]:
    """Each module of the package that a block imports: its line, its name, and the name taken
    from it, if one is.
    """
    for node in ast.walk(ast.parse(block.code)):
        line = block.line + getattr(node, "lineno", 1) - 1
        match node:
            case ast.Import(names=names):
                yield from ((line, alias.name, None) for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((line, module, alias.name) for alias in names)
            case _:
                continue


def fault_of(module: str, name: str | None) -> str | None:
    """Why a page may not import this, or `None`."""
    if module.partition(".")[0] != "toolcrib":
        return None
    if module in PUBLIC_MODULES:
        # What a public module defines is public; what it imports is not.
        if (
            name is None
            or getattr(getattr(import_module(module), name), "__module__", "") == module
        ):
            return None
        return f"{module} does not define {name}"
    if module not in PUBLIC_PACKAGES:
        return f"{module} is no public package"
    if name is None or name in import_module(module).__all__:
        return None
    return f"{name} is not in {module}.__all__"


def faults_in(file: Path) -> list[str]:
    return [
        f"{file}:{line}: {fault}"
        for block in blocks_of(file)
        for line, module, name in imported_names(block)
        if (fault := fault_of(module, name)) is not None
    ]


@pytest.mark.parametrize("file", [*PAGES, *EXAMPLES], ids=lambda file: str(file.relative_to(ROOT)))
def test_pages_and_examples_import_from_packages(file: Path) -> None:
    """A reader who copies an import depends on nothing that may move."""
    assert faults_in(file) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            "from toolcrib.calls.executor import Executor",
            "toolcrib.calls.executor is no public package",
        ),
        ("import toolcrib.calls.executor", "toolcrib.calls.executor is no public package"),
        ("from toolcrib.calls import executor", "executor is not in toolcrib.calls.__all__"),
        ("from toolcrib.calls import Exekutor", "Exekutor is not in toolcrib.calls.__all__"),
        ("from toolcrib.context import Any", "toolcrib.context does not define Any"),
    ],
)
def test_an_import_from_a_private_module_is_found(tmp_path: Path, line: str, fault: str) -> None:
    """Imports of modules and of unlisted names are faults, in functions and unrun blocks too."""
    page = tmp_path / "page.md"
    page.write_text(
        f'Text\n```python no-run="needs a key"\ndef main() -> None:\n    {line}\n```\n', "utf-8"
    )

    assert faults_in(page) == [f"{page}:4: {fault}"]


def test_imports_of_the_public_surface_are_no_fault(tmp_path: Path) -> None:
    """Packages, the two public modules and other libraries may be imported."""
    program = tmp_path / "program.py"
    program.write_text(
        "import json\nimport toolcrib\nfrom toolcrib.calls import Executor\n"
        "from toolcrib.context import AgentContext\nfrom toolcrib.errors import ToolcribError\n",
        "utf-8",
    )

    assert faults_in(program) == []


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_every_exported_name_exists(package: str) -> None:
    """Each name in an `__all__` can be imported, and none of them is a submodule."""
    module = import_module(package)

    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert missing == []
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    assert [name for name in module.__all__ if f"{package}.{name}" in modules_of(package)] == []


def modules_of(package: str) -> set[str]:
    """The submodules of a package, except those that a name of the package replaces at once."""
    found = {
        info.name for info in pkgutil.iter_modules(import_module(package).__path__, f"{package}.")
    }
    return found - {"toolcrib.telemetry.instrument"}


def test_lazy_names_list_and_fail_like_those_of_any_module() -> None:
    """`dir()` lists what a package exports; a misspelt name is an `AttributeError`."""
    import toolcrib.approval

    assert dir(toolcrib.approval) == sorted(toolcrib.approval.__all__)
    with pytest.raises(AttributeError, match=r"'toolcrib\.approval' has no attribute 'Polizy'$"):
        getattr(toolcrib.approval, "Polizy")  # noqa: B009


PROMISED = """\
from toolcrib import Prompt, MarkdownSection, Section, Session, EventBus, ToolInvoked, PromptResponse
from toolcrib import tool, Tool, NativeTool, HostedTool, ProviderTool, ToolContext, ToolResult, ToolExample
from toolcrib import RuntimeConfig, create_runtime
from toolcrib.tools.web_search import WebSearchSection, WebSearchConfig, WebSearchResult, DomainFilter, GeoHint, Citation, web_search_tool
from toolcrib.tools.code_interpreter import CodeInterpreterConfig, CodeInterpreterResult, AutoContainer, ExistingContainer, code_interpreter_tool
from toolcrib.tools import HostMount, VfsPath, OpenAICodeInterpreterTool
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.toolsets import BaseTool, Toolset, GlobalHooks
from toolcrib.context import AgentContext
from toolcrib.host_tools import HostToolRegistry, HostToolDefinition, HostTool, ToolScope, host_tool_registry
"""  # noqa: E501


@pytest.mark.parametrize("line", PROMISED.splitlines())
def test_the_imports_of_the_design_work(line: str) -> None:
    """The design's public names are imported as it writes them, and none of them is a module."""
    names: dict[str, object] = {}
    exec(line, names)

    imported = {name: value for name, value in names.items() if name != "__builtins__"}
    assert len(imported) == line.count(",") + 1
    assert [name for name, value in imported.items() if isinstance(value, ModuleType)] == []
    block = Block(Path("design.md"), 1, line)
    assert [fault_of(module, name) for _, module, name in imported_names(block)] == [None] * len(
        imported
    )
