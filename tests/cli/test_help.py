"""Every command explains itself: a walk through all of them."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.cli.command import invoke
from toolcrib.cli.app import COMMANDS, app

READS = {
    "approvals list",
    "approvals show",
    "approvals watch",
    "audit head",
    "audit query",
    "audit usage",
    "store backup",
    "store info",
    "store prune",
    "store restore",
    "calls",
    "audit tail",
    "audit verify",
    "config show",
    "doctor",
    "grants list",
    "grants show",
    "model list",
    "policy check",
    "policy explain",
    "policy preview",
    "questions list",
    "servers list",
    "gateway list",
    "run",
    "sessions list",
    "sessions resume",
    "sessions show",
    "support",
    "tools call",
    "tokens list",
    "tools list",
    "tools show",
}
"""Commands that print an answer."""
OTHERS = {
    "console",
    "acp",
    "approvals answer",
    "approvals approve",
    "approvals deny",
    "audit keygen",
    "audit reindex",
    "store key",
    "store migrate",
    "config check",
    "config schema",
    "demo",
    "dev",
    "gateway sign-in",
    "gateway sign-out",
    "grants revoke",
    "init",
    "inspect",
    "install",
    "mcp",
    "model pull",
    "notifications test",
    "provider",
    "questions answer",
    "questions decline",
    "serve",
    "sessions export",
    "sessions artifact",
    "tokens create",
    "tokens revoke",
    "tokens rotate",
    "worker",
}
"""Commands that do something; `sessions export` prints nothing but JSON."""


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    names = command.list_commands(None) if hasattr(command, "list_commands") else ()
    for name in names:
        yield from walk(command.get_command(None, name), (*path, name))
    if not names:
        yield " ".join(path), command


LEAVES = dict(walk(typer.main.get_command(app)))


def test_these_are_all_commands() -> None:
    """A new command is either one that reads, with --json, or is named among the others."""
    assert set(LEAVES) == READS | OTHERS


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_every_group_works(name: str) -> None:
    """Asking for help is never an error."""
    done = invoke(name, "--help", env={"COLUMNS": "200"})

    assert done.exit_code == 0
    assert name in done.stdout


@pytest.mark.parametrize("name", sorted(READS | OTHERS))
def test_every_command_has_an_example_of_itself(name: str) -> None:
    """The example is a call of that very command."""
    assert f"Example: toolcrib {name}" in " ".join(LEAVES[name].help.split())


@pytest.mark.parametrize("name", sorted(READS | OTHERS))
def test_every_example_is_well_formed(name: str) -> None:
    """Each option that an example gives is one that the command has."""
    example = LEAVES[name].help.split("Example: ")[1].split("\n\n")[0]
    given = {word for word in example.split() if word.startswith("-")}
    known = {option for each in LEAVES[name].params for option in each.opts}

    assert given <= known


@pytest.mark.parametrize("name", sorted(READS | OTHERS))
def test_every_option_says_what_it_is_for(name: str) -> None:
    """No option and no argument is without help."""
    silent = [each.name for each in LEAVES[name].params if not getattr(each, "help", None)]

    assert silent == []


@pytest.mark.parametrize("name", sorted(READS))
def test_every_reading_command_has_json(name: str) -> None:
    """A program can read what a person can."""
    assert any("--json" in each.opts for each in LEAVES[name].params)
