"""`toolcrib provider`: serves the embedded provider, with its backend and web sources."""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolcrib.cli.http_options import (
    OWNER_TOKEN_VARIABLE,
    ServerOptions,
    takes_access_options,
)
from toolcrib.cli.output import fail, redirected_stdout, require_extra, show, show_note
from toolcrib.cli.runtime_options import option_of
from toolcrib.errors import Refused, UsageError
from toolcrib.project.settings import RUNTIME_SETTINGS, LogFormatChoice, LogLevelChoice

if TYPE_CHECKING:
    from toolcrib.embedded.backend import ModelBackend
    from toolcrib.embedded.file_repository import SharedFiles
    from toolcrib.embedded.images.backend import ImageBackend
    from toolcrib.embedded.provider import EmbeddedProvider
    from toolcrib.embedded.web.source import WebSearchSource


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """The options of the backend."""

    backend: str
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    is_text_only: bool = False


def backend_of(options: BackendOptions) -> ModelBackend:
    """Create the backend that the options name. Raises `UsageError`."""
    kind, _, rest = options.backend.partition(":")
    match kind:
        case "scripted" if rest:
            from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend

            return ScriptedBackend.from_file(rest)
        case "llama":
            require_extra("llama", "--backend llama")
            from toolcrib.embedded.backends.llama.backend import LlamaBackend

            return LlamaBackend(rest) if rest else LlamaBackend()
        case "chat":
            return _chat(options)
        case _:
            raise UsageError(
                f"--backend {options.backend[:80]!r} is unknown; write scripted:FILE, "
                "llama[:MODEL], or chat with --base-url and --model"
            )


def _chat(options: BackendOptions) -> ModelBackend:
    from toolcrib.embedded.backends.chat import ChatBackend

    if options.base_url is None or options.model is None:
        raise UsageError("--backend chat needs --base-url and --model")
    key = "none"
    if options.api_key_env is not None:
        key = os.environ.get(options.api_key_env, "")
        if not key:
            raise UsageError(f"--api-key-env: {options.api_key_env[:80]} is not set")
    return ChatBackend(
        options.model,
        base_url=options.base_url,
        api_key=key,
        reads_images=not options.is_text_only,
    )


def web_of(folders: Sequence[str], searxng: str | None) -> list[WebSearchSource]:
    """Create the web sources that the options name. Raises `UsageError`."""
    from toolcrib.embedded.web.folder import WebFolder
    from toolcrib.embedded.web.searxng import Searxng

    sources: list[WebSearchSource] = []
    for pair in folders:
        folder, _, url = pair.partition("=")
        if not url or not Path(folder).is_dir():
            raise UsageError(f"--web {pair[:80]!r}: write FOLDER=URL with a folder that is there")
        sources.append(WebFolder(folder, url))
    if searxng is not None:
        sources.append(Searxng(searxng))
    return sources


def images_of(name: str | None) -> ImageBackend | None:
    """Create the image backend that the options name. Raises `UsageError`."""
    if name is None:
        return None
    if name != "charts":
        raise UsageError(f"--images {name[:80]!r} is unknown; write charts")
    from toolcrib.embedded.images.chart_images import ChartImages

    return ChartImages()


def aliases_of(pairs: Sequence[str]) -> dict[str, str]:
    """Read the aliases of the options. Raises `UsageError`."""
    aliases: dict[str, str] = {}
    for pair in pairs:
        alias, _, model = pair.partition("=")
        if not alias or not model:
            raise UsageError(f"--alias {pair[:80]!r}: write NAME=MODEL, such as gpt-5=qwen3")
        aliases[alias] = model
    return aliases


DEFAULT_PORT: Final = 8421


BackendName = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="BACKEND",
        help="Who proposes: scripted:FILE, llama[:MODEL] or chat (with --base-url, --model).",
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
TextOnly = Annotated[
    bool, typer.Option("--text-only", help="The chat endpoint's model does not read images.")
]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="Keep everything there; else it is lost."),
]
FilesUrl = Annotated[
    str | None,
    typer.Option(
        "--files", metavar="URL", help="Uploaded files lie in s3://BUCKET/PREFIX, for all replicas."
    ),
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
AllowEgress = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-egress",
        metavar="HOST",
        help="An internal host, host:port or network that requests may name; may be repeated.",
    ),
]
ImagesName = Annotated[
    str | None,
    typer.Option("--images", metavar="BACKEND", help="Who makes images: charts draws charts."),
]
Aliases = Annotated[
    list[str] | None,
    typer.Option(
        "--alias", metavar="NAME=MODEL", help="Another name of the model; may be repeated."
    ),
]
AnyModel = Annotated[
    bool, typer.Option("--any-model", help="Answer whatever model a client names, with a warning.")
]
ShowToken = Annotated[bool, typer.Option("--show-token", help="Print the token on stdout.")]

if TYPE_CHECKING:
    LogLevelOption = LogLevelChoice | None
    LogFormatOption = LogFormatChoice
    AccessLog = bool
else:
    _LOG = {setting.name: option_of(setting) for setting in RUNTIME_SETTINGS}
    LogLevelOption, LogFormatOption = _LOG["log_level"], _LOG["log_format"]
    AccessLog = _LOG["access_log"]


@takes_access_options(port=DEFAULT_PORT, has_runtime=False)
def provider(
    server: ServerOptions,
    backend: BackendName,
    base_url: BaseUrl = None,
    model: ModelName = None,
    api_key_env: KeyVariable = None,
    text_only: TextOnly = False,
    data: DataFolder = None,
    files: FilesUrl = None,
    web: WebFolders = None,
    searxng: SearxngUrl = None,
    allow_network: AllowNetwork = False,
    allow_unconfined: AllowUnconfined = False,
    allow_egress: AllowEgress = None,
    images: ImagesName = None,
    alias: Aliases = None,
    any_model: AnyModel = False,
    show_token: ShowToken = False,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = "text",
    access_log: AccessLog = True,
) -> None:
    """Serve the Responses API with hosted tools that run on this machine.

    The official openai client is its client: set OPENAI_BASE_URL to the address that is printed,
    and OPENAI_API_KEY to the token, which is in a file that only you can read.

    Example: toolcrib provider --backend scripted:shop.yaml --data state --web site=https://a.example

    Example: toolcrib provider --backend llama --data state

    Example: toolcrib provider --backend chat --base-url http://127.0.0.1:11434/v1 --model qwen3
    """
    require_extra("server", "provider")
    require_extra("openai", "provider")
    options = BackendOptions(backend, base_url, model, api_key_env, text_only)
    try:
        model_backend, sources = backend_of(options), web_of(web or (), searxng)
        embedded = _create(
            model_backend,
            data,
            sources,
            files=files,
            images=images_of(images),
            allow_network=allow_network,
            allow_unconfined=allow_unconfined,
            allow_egress=allow_egress or (),
            aliases=aliases_of(alias or ()),
            any_model=any_model,
        )
        if show_token:
            show(_secret(server))
        serving = _serve(embedded, model_backend, server, data, access_log=access_log)
        _run(serving, log_level, log_format)
    except (Refused, UsageError, OSError) as error:
        fail(str(error))


def _run(
    serving: Coroutine[Any, Any, None], level: LogLevelChoice | None, format_: LogFormatChoice
) -> None:
    """Serve until the process is told to stop."""
    import asyncio

    from toolcrib.logs import LogOptions, restored_logs, write_logs

    with redirected_stdout(), restored_logs():
        write_logs(LogOptions(level=level or "info", format=format_))
        asyncio.run(serving)


def _create(
    model_backend: ModelBackend,
    data: Path | None,
    web: list[WebSearchSource],
    *,
    files: str | None,
    images: ImageBackend | None,
    allow_network: bool,
    allow_unconfined: bool,
    allow_egress: Sequence[str],
    aliases: Mapping[str, str],
    any_model: bool,
) -> EmbeddedProvider:
    from toolcrib.embedded.provider import EmbeddedProvider
    from toolcrib.embedded.search.embedder import MiniLmEmbedder

    return EmbeddedProvider(
        model_backend,
        data=data,
        shared_files=None if files is None else _shared_files(files),
        web=web,
        images=images,
        embedder=MiniLmEmbedder() if MiniLmEmbedder.is_installed() else None,
        allow_network=allow_network,
        allow_unconfined=allow_unconfined,
        allow_egress=allow_egress,
        aliases=aliases,
        any_model=any_model,
    )


def _shared_files(url: str) -> SharedFiles:
    require_extra("s3", "--files")
    from toolcrib.embedded.s3_files import S3Files

    return S3Files(url)


async def _serve(
    embedded: EmbeddedProvider,
    model_backend: ModelBackend,
    server: ServerOptions,
    data: Path | None,
    *,
    access_log: bool,
) -> None:
    from toolcrib.embedded.server import serve_provider

    access, tls = server.access(), server.tls()

    def tell(url: str) -> None:
        scripted = ", a written scenario" if model_backend.is_scripted else ""
        server.announce(url)
        show_note(f"the model is {model_backend.name}{scripted}")
        show_note(
            f"state is kept in {data}" if data else "nothing is kept; give --data FOLDER for that"
        )

    async with embedded:
        await serve_provider(
            embedded,
            server.host,
            server.port,
            limits=server.limits(),
            tls=tls,
            on_ready=tell,
            access_log=access_log,
            **access,
        )


def _secret(server: ServerOptions) -> str:
    """The owner's token, created if there is none."""
    from toolcrib.serving.tokens import (
        default_token_file,
        owner_token,
        read_or_create_owner_token,
    )

    token = os.environ.get(OWNER_TOKEN_VARIABLE)
    if server.token_file is None and token:
        return token
    path = server.token_file or default_token_file()
    read_or_create_owner_token(path)
    return owner_token(path)
