"""The look of `--help`: plain text that breaks at words, with long lists of options in sections.

It needs neither Rich nor anything that a command imports to run, so it is quick.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from toolcrib.cli.values import read_plainly
from toolcrib.terminal_text import (
    columns_of,
    command_lines,
    paint,
    terminal_width,
    wrap,
    wrap_lines,
)

MOST_COLUMNS: Final = 100
"""Longer lines are hard to read, however wide the terminal."""
_NAME_COLUMNS: Final = 26
_INDENT: Final = "  "
_EXAMPLE: Final = "Example: "
_MANY_OPTIONS: Final = 12
_CHOICE_FAULT: Final = "Value error, "
"""How a fault begins that Typer's schema library has found."""
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Tools": (
        "host_tools",
        "host_tools_module",
        "plugins",
        "toolset",
        "hooks",
        "expect_tool",
        "bind_to",
        "reload",
    ),
    "Model": ("adapter", "instructions"),
    "Approval": (
        "policy",
        "approver_place",
        "approve",
        "approve_own_calls",
        "approve_by_elicitation",
    ),
    "Address": (
        "http",
        "stdio",
        "host",
        "port",
        "public_url",
        "allow_host",
        "allow_origin",
        "tls_cert",
        "tls_key",
        "trusted_proxy",
        "console",
        "open",
    ),
    "Who may use it": (
        "token_file",
        "tokens",
        "show_token",
        "oidc_issuer",
        "oidc_audience",
        "oidc_groups_claim",
        "oidc_name_claim",
        "oidc_role",
        "oidc_scope",
        "oidc_client_id",
        "oidc_client_secret_file",
        "oidc_sign_in_scope",
    ),
    "What callers may choose and take": (
        "allow_cwd",
        "allow_env",
        "allow_egress",
        "allow_network",
        "allow_unconfined",
        "max_calls",
        "max_calls_per_minute",
        "max_open_sessions",
        "max_bytes_per_day",
        "max_connections",
        "max_connections_per_peer",
        "idle_seconds",
    ),
    "Store and anchors": (
        "store",
        "anchor_file",
        "anchor_url",
        "anchor_every",
        "signing_key",
    ),
    "Logs and metrics": (
        "log_level",
        "log_format",
        "access_log",
        "otlp",
        "metrics",
        "metrics_listen",
        "metrics_by_principal",
    ),
    "Notifications": (
        "notify_url",
        "notify_url_file",
        "notify_secret_file",
        "notify_event",
        "notify_format",
        "notify_link",
    ),
    "Server": ("url",),
}
"""Where the options of a command with many of them are listed, by their parameter's name."""
_KINDS: Final[Mapping[str, str]] = {
    "int": "N",
    "float": "NUMBER",
    "str": "TEXT",
    "file": "FILE",
    "path": "PATH",
}


class HelpCommand(TyperCommand):
    """A command whose help is plain text, and whose options default to those of the project. It
    starts fast: see `read_plainly`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line, and the project for what it leaves out."""
        read_plainly(self.get_params(ctx))
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if "--help" in args:
            super().parse_args(ctx, args)
            # Still here: it was the value of another option. The project has not been read, so that
            # its policy would not be in force.
            raise typer.BadParameter("--help cannot be the value of an option")
        from toolcrib.cli.project_options import project_defaults

        with project_defaults(ctx) as defaults:
            ctx.default_map = defaults
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run it. Only what is made from here on can become garbage."""
        gc.freeze()
        gc.enable()
        return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        formatter.write(help_page(self, ctx))


class HelpGroup(TyperGroup):
    """A group whose help and faults are plain text. It starts fast: see `read_plainly`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options."""
        read_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run it. What is wrong with the command line is told in lines that break at words."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        try:
            status = super().main(*args, standalone_mode=False, **extra)
        except typer.TyperException as error:
            _show_fault(error)
            raise SystemExit(error.exit_code) from None
        except typer.Abort:
            typer.echo("Aborted!", err=True)
            raise SystemExit(1) from None
        raise SystemExit(status or 0)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page."""
        formatter.write(help_page(self, ctx))

    def summary(self, ctx: Any, name: str) -> str | None:
        """What the list of commands says of one; None for a hidden one."""
        command: Any = self.get_command(ctx, name)
        return None if command is None or command.hidden else _first_sentence(command)


def group_of(app: typer.Typer) -> Any:
    """The group of `app`, with its commands; without options for completion, which the whole
    command has.
    """
    app.info.cls = HelpGroup
    for command in app.registered_commands:
        command.cls = HelpCommand
    return typer.main.get_group(app)


def _show_fault(error: typer.TyperException) -> None:
    page = StringIO()
    _mend_message(error)
    # Typer's own exceptions know their usage line; those of an application have only a message.
    show: Any = getattr(error, "show", None)
    if show is None:
        page.write(f"Error: {error.format_message()}\n")
    else:
        show(page)
    width = terminal_width(sys.stderr) if sys.stderr.isatty() else sys.maxsize
    typer.echo("\n".join(wrap_lines(page.getvalue().rstrip("\n"), width)), err=True)


def _mend_message(error: Any) -> None:
    """Say of a wrong choice which one it may be, and of an option of the whole command where it
    stands.
    """
    if (message := str(error)).startswith(_CHOICE_FAULT) and " is not one of " in message:
        value, _, rest = message.removeprefix(_CHOICE_FAULT).partition(" is not one of ")
        choices = [choice.strip("'") for choice in rest.rstrip(".").split(", ")]
        error.message = f"{value} is not one of {', '.join(choices)}{_meant(value, choices)}"
    option, ctx = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if option is None or ctx is None or ctx.parent is None:
        return
    root = ctx.find_root()
    for param in root.command.get_params(root):
        if option in param.opts:
            words = [option, *([param.metavar] if param.metavar else ())]
            command = ctx.command_path.removeprefix(root.command_path)
            right = f"toolcrib {' '.join(words)}{command} ..."
            error.message += f" here; it stands before the command: {right}"
            error.possibilities = None


def _meant(value: str, choices: list[str]) -> str:
    import difflib

    similar = difflib.get_close_matches(value.strip("'"), choices, n=1)
    return f"; did you mean {similar[0]}?" if similar else ""


def help_page(command: TyperCommand | TyperGroup, ctx: Any) -> str:
    """The help of a command, for the width of the terminal."""
    width = min(terminal_width(sys.stdout), MOST_COLUMNS)
    usage = wrap(f"Usage: {ctx.command_path} {_usage(command, ctx)}", width, hanging=" " * 7)
    lines = [*usage, "", *_text_lines(command.help or "", width)]
    for title, rows in _sections(command, ctx):
        lines += ["", paint(f"{title}:", "bold", sys.stdout), *_definitions(rows, width)]
    return "\n".join(lines) + "\n"


def _params(command: TyperCommand | TyperGroup, ctx: Any) -> list[Any]:
    params: list[Any] = [*command.get_params(ctx)]
    return [each for each in params if not each.hidden]


def _usage(command: TyperCommand | TyperGroup, ctx: Any) -> str:
    names = [
        _argument_name(each) for each in _params(command, ctx) if isinstance(each, TyperArgument)
    ]
    ends = ["COMMAND [ARGS]..."] if isinstance(command, TyperGroup) else names
    return " ".join(["[OPTIONS]", *ends])


def _text_lines(text: str, width: int) -> Iterator[str]:
    """The paragraphs of a docstring; an example is a command to copy."""
    for index, paragraph in enumerate(text.strip().split("\n\n")):
        if index:
            yield ""
        line = " ".join(paragraph.split())
        if line.startswith(_EXAMPLE):
            yield _EXAMPLE.strip()
            yield from command_lines(line.removeprefix(_EXAMPLE), width)
        else:
            yield from wrap(line, width)


def _sections(
    command: TyperCommand | TyperGroup, ctx: Any
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    params = _params(command, ctx)
    arguments = [each for each in params if isinstance(each, TyperArgument)]
    options = [each for each in params if isinstance(each, TyperOption)]
    if arguments:
        yield "Arguments", [(_argument_name(each), _description(each)) for each in arguments]
    for title, chosen in _grouped(options):
        yield title, [(_option_name(each), _description(each)) for each in chosen]
    if isinstance(command, HelpGroup):
        yield "Commands", [*_commands(command, ctx)]


def _grouped(options: list[TyperOption]) -> Iterator[tuple[str, list[TyperOption]]]:
    """The options in sections, if they are many. Those that are in no section come last."""
    if len(options) <= _MANY_OPTIONS:
        yield "Options", options
        return
    section_of = {name: title for title, names in SECTIONS.items() for name in names}
    if any(each.name == "url" for each in options):
        # Of a command that uses a server, the token is for that server.
        section_of["token_file"] = "Server"
    for title in (*SECTIONS, "Options"):
        if chosen := [
            each for each in options if section_of.get(each.name or "", "Options") == title
        ]:
            yield title, chosen


def _commands(group: HelpGroup, ctx: Any) -> Iterator[tuple[str, str]]:
    for name in group.list_commands(ctx):
        if (summary := group.summary(ctx, name)) is not None:
            yield name, summary


def _first_sentence(command: Any) -> str:
    text = " ".join((command.help or "").split("\n\n")[0].split())
    sentence, stop, _ = text.partition(". ")
    return f"{sentence}." if stop else text


def _argument_name(argument: TyperArgument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    name = name if argument.required else f"[{name}]"
    return name if argument.nargs == 1 else f"{name}..."


def _option_name(option: TyperOption) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag or option.count else f"{names} {_value_name(option)}"


def _value_name(option: TyperOption) -> str:
    if option.metavar:
        return option.metavar
    kind = option.display_type(ctx=_NO_CONTEXT) or "<str>"
    bare = kind.strip("<>").removesuffix(" range").removeprefix("list[").removesuffix("]")
    return _KINDS.get(bare, bare)


_NO_CONTEXT: Final[Any] = None


def _description(param: TyperArgument | TyperOption) -> str:
    text = param.help or ""
    default: Any = param.default
    if param.required:
        return f"{text} (required)" if isinstance(param, TyperOption) else text
    # What is off, empty or absent goes without saying.
    is_told = not callable(default) and default not in (None, False, "", [], ())
    return f"{text} (default: {'on' if default is True else default})" if is_told else text


def _definitions(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Names with their descriptions beside them; below them, after a long name."""
    rows = list(rows)
    short = [columns_of(name) for name, _ in rows if columns_of(name) <= _NAME_COLUMNS]
    beside = max(short, default=_NAME_COLUMNS) + len(_INDENT)
    space = " " * (len(_INDENT) + beside)
    for name, text in rows:
        described = [space + line for line in wrap(text, width - len(space))] if text else []
        if described and columns_of(name) + len(_INDENT) <= beside:
            described[0] = _INDENT + name.ljust(beside) + described[0].lstrip()
            yield from described
        else:
            yield from wrap(_INDENT + name, width, hanging=_INDENT)
            yield from described
