"""The hint to install an extra names a command that works for this installation."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.extras import install_command


@pytest.fixture
def dist_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of the package in an empty folder, from a registry."""
    info = tmp_path / "toolcrib-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: toolcrib\nVersion: 0.1.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return info


def installed_from(dist_info: Path, **origin: object) -> None:
    (dist_info / "direct_url.json").write_text(json.dumps(origin), "utf-8")


def test_from_a_registry_it_is_the_plain_command(dist_info: Path) -> None:
    """Nothing says where it came from, so the registry has it."""
    assert install_command("mcp") == "pip install 'toolcrib[mcp]'"


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (
            {"url": "file:///srv/tool%20crib", "dir_info": {"editable": True}},
            "pip install -e '/srv/tool crib[mcp]'",
        ),
        (
            {"url": "file:///src/toolcrib", "dir_info": {}},
            "pip install '/src/toolcrib[mcp]'",
        ),
        (
            {"url": "file:///tmp/toolcrib-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install '/tmp/toolcrib-0.1.0-py3-none-any.whl[mcp]'",
        ),
        (
            {
                "url": "https://git.example/toolcrib.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "main"},
            },
            "pip install 'toolcrib[mcp] @ git+https://git.example/toolcrib.git@main'",
        ),
        (
            {"url": "https://files.example/toolcrib-0.1.0.tar.gz", "archive_info": {}},
            "pip install 'toolcrib[mcp] @ https://files.example/toolcrib-0.1.0.tar.gz'",
        ),
    ],
)
def test_newcomers_18_from_elsewhere_it_names_that_place(
    dist_info: Path, origin: dict[str, object], command: str
) -> None:
    """A registry may not have the package at all, so its name alone is no help."""
    installed_from(dist_info, **origin)

    assert install_command("mcp") == command


def test_an_origin_that_cannot_be_read_is_the_plain_command(dist_info: Path) -> None:
    """A hint never fails."""
    (dist_info / "direct_url.json").write_text("{", "utf-8")

    assert install_command("mcp") == "pip install 'toolcrib[mcp]'"


@pytest.mark.wire
def test_a_checkout_on_the_path_is_named() -> None:
    """Not installed at all, only imported: the folder with the project file is what pip takes."""
    source = Path(__file__).parents[1] / "src"
    code = "from toolcrib.extras import install_command; print(install_command('cli'))"
    done = subprocess.run(
        # Without site-packages, so that no installation is there.
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert shlex.split(done.stdout) == ["pip", "install", "-e", f"{source.parent}[cli]"]
