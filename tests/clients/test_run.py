"""Every script of a client is run by `make clients`."""

from __future__ import annotations

from tests.clients.run import CLIENTS, HERE

PARTS = {"run.py", "test_run.py", "desk_server.py", "desk_tools.py"}


def test_no_script_of_a_client_is_forgotten() -> None:
    """A script that nobody runs proves nothing."""
    scripts = {path.name for path in HERE.iterdir() if path.suffix in (".py", ".mjs")}

    assert {client.script for client in CLIENTS} == scripts - PARTS


def test_every_package_is_pinned() -> None:
    """The same clients everywhere."""
    packages = [package for client in CLIENTS for package in client.packages]

    assert packages
    assert all("==" in package or "@" in package[1:] for package in packages)
