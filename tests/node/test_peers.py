"""The JavaScript peers are pinned, and the ones that were pinned are the ones that run."""

import json
import re
import subprocess
from pathlib import Path

from tests.node.peers import MODULES, command, environment, needs_node

PINNED = json.loads(Path(__file__).with_name("package.json").read_text())["dependencies"]


def test_every_peer_has_one_version() -> None:
    """A range would test another peer tomorrow, and there is no lock file to hold it."""
    assert [
        each for each in PINNED.values() if not re.fullmatch(r"\d+\.\d+\.\d+[\w.-]*", each)
    ] == []


@needs_node
def test_the_pinned_versions_are_installed() -> None:
    """With a Node that it deems too old, npm gives an older version without a word."""
    found = {
        name: json.loads((MODULES / name / "package.json").read_text())["version"]
        for name in PINNED
    }

    assert found == PINNED


@needs_node
def test_peers_run_under_the_pinned_node() -> None:
    """A peer that finds its interpreter by the path finds ours before the system's."""
    asked = ["sh", "-c", "node --version"]
    ran = subprocess.run(asked, env=environment(), capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == f"v{PINNED['node']}"
    assert Path(command("mcp-inspector")).exists()
