"""The OpenAPI document and the server that it is about, held against each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.transports.http.accounts.routes import ACCOUNT_ROUTES
from toolcrib.transports.http.downloads import DOWNLOAD_ROUTES
from toolcrib.transports.http.frontends.routes import FRONTEND_ROUTES
from toolcrib.transports.http.routes import ROUTES

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_server_is_what_its_document_says() -> None:
    """R37: whatever is thrown at a real server, it answers without a fault of its own, with the
    statuses, types and bodies that its document names; what the document allows is taken, what it
    does not allow is refused, and nothing is answered without the token.
    """
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix, "NO_COLOR": "1"}

    done = subprocess.run(
        [ROOT / "scripts" / "schemathesis.sh", "--max-examples", "8"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert done.returncode == 0, done.stdout[-8_000:]
    count = len(ROUTES) + len(ACCOUNT_ROUTES) + len(DOWNLOAD_ROUTES) + len(FRONTEND_ROUTES)
    assert f"{count} passed" in done.stdout
