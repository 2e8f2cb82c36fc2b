"""Our MCP client passes the official suite's scenarios about signing in. These are some of them;
`scripts/conformance_client.sh` plays all.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.node.peers import ROOT, needs_node

pytestmark = [pytest.mark.slow, needs_node]


@pytest.mark.parametrize(
    "scenario",
    [
        "auth/scope-step-up",
        "auth/authorization-server-migration",
        "auth/basic-cimd",
        "auth/client-credentials-jwt",
    ],
)
def test_a_scenario_passes(scenario: str, tmp_path: Path) -> None:
    """Discovery, registration, scopes, issuers and grants are as the protocol asks."""
    ran = subprocess.run(
        [ROOT / "scripts" / "conformance_client.sh", tmp_path, scenario],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"pass {scenario}" in ran.stdout
