"""The examples run, as a reader would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=50,
        check=False,
    )


def test_the_support_desk_survives_its_own_kill_and_proves_it() -> None:
    """The first process dies with a call waiting; the second goes on and verifies."""
    done = run("support_desk/run.py")

    assert done.returncode == 0, done.stderr
    assert "the process is killed" in done.stdout
    assert "refund         completed  Refunded 49.90 EUR for A-17." in done.stdout
    assert "not_permitted" in done.stdout
    assert "ledger verified: 10 records" in done.stdout
    assert "files that hold the card token: none" in done.stdout
    assert "refunds in the books: 1" in done.stdout


def test_an_agent_waits_for_a_person_and_goes_on() -> None:
    """The refund runs once, after the yes, in a session that was opened anew."""
    done = run("agent_desk.py")

    assert done.returncode == 0, done.stderr
    before, after = done.stdout.split("2. Somebody says yes")
    assert "waits: refund" in before
    assert "money leaves the account" in before
    assert "Refunded" not in before
    assert "refund -> Refunded 49.90 EUR for A-17." in after
    assert "approve by person ada" in after
    assert "The customer has the money back." in after
    assert "ledger verified" in after
