"""`toolcrib provider`: the Responses API with hosted tools, on this machine."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from toolcrib.cli.extras import need
from toolcrib.cli.provider_brains import AskedBrain, brain_of, web_of
from toolcrib.cli.remote import TOKEN_VARIABLE
from toolcrib.cli.serving_http import AllowHost, AllowOrigin, Host, Port, ServerTokens
from toolcrib.cli.streams import fail, note, show, stdout_kept
from toolcrib.errors import Refused, UsageError

if TYPE_CHECKING:
    from toolcrib.local.brain import Brain
    from toolcrib.local.provider import LocalProvider
    from toolcrib.local.web.source import WebSource
    from toolcrib.transports.security import Tokens

DEFAULT_PORT: Final = 8421


@dataclass(frozen=True, slots=True)
class _Door:
    host: str
    port: int
    token_file: Path | None
    hosts: list[str] | None
    origins: list[str] | None


BrainName = Annotated[
    str,
    typer.Option(
        "--brain",
        metavar="BRAIN",
        help="Who proposes: scripted:FILE, local[:MODEL] or chat (with --base-url, --model).",
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="The chat endpoint.")
]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The chat endpoint's model.")
]
KeyVariable = Annotated[
    str | None,
    typer.Option("--api-key-env", metavar="VARIABLE", help="Where the endpoint's key is."),
]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="Keep everything there; else it is lost."),
]
WebFolders = Annotated[
    list[str] | None,
    typer.Option("--web", metavar="FOLDER=URL", help="Pages to search; may be repeated."),
]
SearxngUrl = Annotated[
    str | None, typer.Option("--searxng", metavar="URL", help="A SearXNG endpoint to search.")
]
AllowNetwork = Annotated[
    bool, typer.Option("--allow-network", help="Containers may ask for the network.")
]
AllowUnconfined = Annotated[
    bool, typer.Option("--allow-unconfined", help="Run code even where no sandbox is.")
]
ShowToken = Annotated[bool, typer.Option("--show-token", help="Print the token on stdout.")]


def provider(
    brain: BrainName,
    base_url: BaseUrl = None,
    model: ModelName = None,
    api_key_env: KeyVariable = None,
    data: DataFolder = None,
    web: WebFolders = None,
    searxng: SearxngUrl = None,
    allow_network: AllowNetwork = False,
    allow_unconfined: AllowUnconfined = False,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    token_file: ServerTokens = None,
    show_token: ShowToken = False,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
) -> None:
    """Serve the Responses API with hosted tools that really run here.

    The official openai client is its client: set OPENAI_BASE_URL to the address that is printed,
    and OPENAI_API_KEY to the token, which is in a file that only you can read.

    Example: toolcrib provider --brain scripted:shop.yaml --data state --web site=https://a.example

    Example: toolcrib provider --brain local --data state

    Example: toolcrib provider --brain chat --base-url http://127.0.0.1:11434/v1 --model qwen3
    """
    need("server", "provider")
    need("openai", "provider")
    asked = AskedBrain(brain, base_url, model, api_key_env)
    door = _Door(host, port, token_file, allow_host, allow_origin)
    try:
        proposer, sources = brain_of(asked), web_of(web or (), searxng)
        made = _made(proposer, data, sources, allow_network, allow_unconfined)
        if show_token:
            show(_secret(door))
        with stdout_kept():
            asyncio.run(_serve(made, proposer, door, data))
    except (Refused, UsageError, OSError) as error:
        fail(str(error))


def _made(
    proposer: Brain,
    data: Path | None,
    web: list[WebSource],
    allow_network: bool,
    allow_unconfined: bool,
) -> LocalProvider:
    from toolcrib.local.provider import LocalProvider
    from toolcrib.local.search.embedding import MiniLm

    return LocalProvider(
        proposer,
        data=data,
        web=web,
        embedder=MiniLm() if MiniLm.is_installed() else None,
        allow_network=allow_network,
        allow_unconfined=allow_unconfined,
    )


async def _serve(made: LocalProvider, proposer: Brain, door: _Door, data: Path | None) -> None:
    from toolcrib.local.serving import serve_provider
    from toolcrib.transports.security_origins import LOOPBACK_HOSTS

    tokens = _given_tokens(door)

    def tell(url: str) -> None:
        scripted = ", whose answers are written beforehand" if proposer.is_scripted else ""
        note(f"serving on {url}")
        note(f"the model is {proposer.name}{scripted}")
        note(f"the token is {_token_place(door)}")
        note(f"state is kept in {data}" if data else "nothing is kept; give --data FOLDER for that")

    async with made:
        await serve_provider(
            made,
            door.host,
            door.port,
            tokens=tokens,
            token_file=door.token_file,
            allowed_hosts=[*LOOPBACK_HOSTS, *door.hosts] if door.hosts else None,
            allowed_origins=door.origins,
            on_ready=tell,
        )


def _given_tokens(door: _Door) -> Tokens | None:
    """Tokens that somebody chose; None leaves it to a file that is made on loopback."""
    from toolcrib.transports.security import Token, Tokens, read_tokens

    if door.token_file is not None:
        return read_tokens(door.token_file) if door.token_file.exists() else None
    given = os.environ.get(TOKEN_VARIABLE)
    return Tokens([Token(given)]) if given else None


def _token_place(door: _Door) -> str:
    from toolcrib.transports.security import default_token_file

    if door.token_file is None and os.environ.get(TOKEN_VARIABLE):
        return f"that of {TOKEN_VARIABLE}"
    return f"in {door.token_file or default_token_file()}"


def _secret(door: _Door) -> str:
    """The owner's token, which is made when there is none yet."""
    from toolcrib.transports.security import default_token_file, owner_token, read_or_make_tokens

    given = os.environ.get(TOKEN_VARIABLE)
    if door.token_file is None and given:
        return given
    path = door.token_file or default_token_file()
    read_or_make_tokens(path)
    return owner_token(path)
