"""Every library that the package imports is declared in pyproject.toml."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
OWN = "toolcrib"
TOOLS_OF_THE_PROJECT = {"bench", "dev", "docs"}
"""Extras that a user does not install, so what they declare does not count."""


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names_of(requirements: list[str]) -> set[str]:
    names = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
    return {normal(match[0]) for match in names if match}


def declared() -> set[str]:
    """The distributions that the core and the extras for users require."""
    facts = project()
    extras: dict[str, list[str]] = facts["optional-dependencies"]
    names = names_of(facts["dependencies"])
    for extra, requirements in extras.items():
        if extra not in TOOLS_OF_THE_PROJECT:
            names |= names_of(requirements)
    return names


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """The modules that a module imports anywhere, also for type checkers and by a literal name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), level=0, names=aliases):
                # A name may be a module: `from google import genai`.
                yield from (f"{module}.{alias.name}" for alias in aliases)
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield module
            case _:
                continue


def is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    return top != OWN and top not in sys.stdlib_module_names


def is_beside(module: str, path: Path) -> bool:
    """Whether it is a module of the same folder: of the project that `toolcrib init` writes."""
    return (path.parent / f"{module.partition('.')[0]}.py").exists()


def owners(module: str, distributions: dict[str, list[str]]) -> set[str]:
    """The installed distributions that hold a module. A namespace package has several, so there the
    second part of the name decides.
    """
    candidates = set(distributions.get(module.partition(".")[0], ()))
    if len(candidates) > 1:
        inside = "/".join(module.split(".")[:2])
        candidates = {name for name in candidates if holds(name, inside)}
    return {normal(name) for name in candidates}


def holds(name: str, inside: str) -> bool:
    files = distribution(name).files or ()
    return any(str(file).startswith((f"{inside}/", f"{inside}.")) for file in files)


def undeclared(modules: dict[str, str], names: set[str]) -> list[str]:
    """The imports, as module and importing file, of which no owner is declared."""
    distributions = {key: list(value) for key, value in packages_distributions().items()}
    return [
        f"{file} imports {module}"
        for module, file in sorted(modules.items())
        if not owners(module, distributions) & names
    ]


def test_every_imported_library_is_declared() -> None:
    """What is there only because another library needs it goes away when that library changes."""
    modules = {
        module: str(path.relative_to(ROOT))
        for path in sorted(SOURCE.rglob("*.py"))
        for module in imported_modules(ast.parse(path.read_text("utf-8")))
        if is_foreign(module) and not is_beside(module, path)
    }

    assert {"mcp", "openai", "pydantic"} <= {module.partition(".")[0] for module in modules}
    assert undeclared(modules, declared()) == []


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import httpx2", "httpx2"),
        ("from httpx2 import Response", "httpx2.Response"),
        ("from opentelemetry.sdk import trace", "opentelemetry.sdk.trace"),
        ("def f():\n    import anthropic", "anthropic"),
        ("importlib.import_module('hypothesis')", "hypothesis"),
        ("import no_such_library", "no_such_library"),
    ],
)
def test_an_undeclared_import_is_reported(line: str, module: str) -> None:
    """The rule sees imports at the top, in functions and by name, and part of a namespace."""
    modules = {name: "file.py" for name in imported_modules(ast.parse(line)) if is_foreign(name)}

    assert undeclared(modules, {"opentelemetry-api", "pydantic"}) == [f"file.py imports {module}"]


def test_a_part_of_a_namespace_belongs_to_its_own_distribution() -> None:
    """The API of OpenTelemetry is declared without its SDK."""
    modules = {"opentelemetry.trace.Span": "file.py"}

    assert undeclared(modules, {"opentelemetry-api"}) == []


@pytest.mark.parametrize("library", ["mcp", "pydantic-ai-slim", "uvicorn"])
def test_a_library_whose_private_parts_are_used_has_an_upper_bound(library: str) -> None:
    """A private part may change in any version, so an untested version is not installed."""
    extras: dict[str, list[str]] = project()["optional-dependencies"]
    requirements = [
        requirement
        for extra, extra_requirements in extras.items()
        if extra not in TOOLS_OF_THE_PROJECT
        for requirement in extra_requirements
        if names_of([requirement]) == {library}
    ]

    assert requirements
    assert [text for text in requirements if not re.search(r"<\d", text)] == []
