"""The OpenAPI document and the server that it is about, held against each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.embedded.http.openapi import OPERATIONS
from toolcrib.transports.http.accounts.routes import ACCOUNT_ROUTES
from toolcrib.transports.http.downloads import DOWNLOAD_ROUTES
from toolcrib.transports.http.frontends.routes import FRONTEND_ROUTES
from toolcrib.transports.http.routes import ROUTES

ROOT = Path(__file__).parents[2]


def run_schemathesis(*options: str) -> str:
    """Run the check on a server of its own; its report."""
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix, "NO_COLOR": "1"}
    done = subprocess.run(
        [ROOT / "scripts" / "schemathesis.sh", *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-8_000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_server_is_what_its_document_says() -> None:
    """R37: whatever is thrown at a real server, it answers without a fault of its own, with the
    statuses, types and bodies that its document names; what the document allows is taken, what it
    does not allow is refused, and nothing is answered without the token.
    """
    report = run_schemathesis("--max-examples", "8")

    count = len(ROUTES) + len(ACCOUNT_ROUTES) + len(DOWNLOAD_ROUTES) + len(FRONTEND_ROUTES)
    assert f"{count} passed" in report


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_embedded_provider_is_what_its_document_says() -> None:
    """The same holds for the API of the embedded provider."""
    report = run_schemathesis("--provider", "--max-examples", "3")

    assert f"Tested: {len(OPERATIONS)}" in report
