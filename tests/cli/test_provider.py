"""`toolcrib provider`: who answers, where it listens, and what it says about that."""

from __future__ import annotations

import re
import signal
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from openai import OpenAI

from tests.cli.command import MAIN, environment, invoke
from tests.helpers.child_process import ChildProcess, child_process
from toolcrib.cli.provider import BackendOptions, backend_of
from toolcrib.embedded.backend import reads_images


@contextmanager
def provider(folder: Path, *options: str) -> Generator[tuple[ChildProcess, str]]:
    """A process that serves, and its address."""
    (folder / "shop.yaml").write_text("name: shop\nturns:\n  - steps:\n      - say: Hello.\n")
    command = [*MAIN, "provider", "--backend", "scripted:shop.yaml", "--port", "0", *options]
    with child_process(command, cwd=folder, env=environment()) as process:
        url = re.search(r"http://\S+", process.stderr.next_line())
        assert url is not None
        yield process, url[0]


@pytest.mark.wire
def test_it_serves_the_official_client_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """The token is in a private file, and is printed nowhere."""
    options = (
        "--token-file",
        "token",
        "--data",
        "state",
        "--alias",
        "gpt-5=shop",
        "--images",
        "charts",
    )
    with provider(tmp_path, *options) as (process, url):
        token = (tmp_path / "token").read_text().strip()
        with OpenAI(base_url=url, api_key=token) as client:
            response = client.responses.create(model="shop", input="hi")
            assert client.responses.create(model="gpt-5", input="hi").model == "shop"
        process.send_signal(signal.SIGTERM)
        status = process.wait()
    assert response.output_text == "Hello."
    assert response.metadata == {"toolcrib_backend": "scripted"}
    assert status == 0
    assert token not in process.stdout.text + process.stderr.text
    assert "a written scenario" in process.stderr.text
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert (tmp_path / "state" / "provider.sqlite3").exists()


@pytest.mark.wire
def test_the_token_is_printed_for_whoever_asks(tmp_path: Path) -> None:
    """On stdout, alone, so that a script can take it."""
    with provider(tmp_path, "--token-file", "token", "--show-token") as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    token = process.stdout.text.strip()
    assert token == (tmp_path / "token").read_text().strip()
    assert token not in process.stderr.text
    assert "nothing is kept" in process.stderr.text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--backend", "oracle"], "write scripted:FILE"),
        (["--backend", "scripted"], "write scripted:FILE"),
        (["--backend", "scripted:none.yaml"], "none.yaml: cannot be read"),
        (["--backend", "chat"], "--base-url and --model"),
        (
            [
                "--backend",
                "chat",
                "--base-url",
                "http://x",
                "--model",
                "m",
                "--api-key-env",
                "NO_KEY",
            ],
            "NO_KEY is not set",
        ),
        (["--backend", "llama:/no/model.gguf"], "model.gguf"),
        (["--backend", "chat", "--base-url", "u", "--model", "m", "--web", "x"], "FOLDER=URL"),
        (["--backend", "chat", "--base-url", "u", "--model", "m", "--alias", "x"], "NAME=MODEL"),
        (["--backend", "chat", "--base-url", "u", "--model", "m", "--images", "x"], "write charts"),
        (["--backend", "chat", "--base-url", "u", "--model", "m", "--alias", "a=b"], "there is m"),
        (
            ["--backend", "chat", "--base-url", "u", "--model", "m", "--host", "0.0.0.0"],
            "other machines",
        ),
        (
            ["--backend", "chat", "--base-url", "u", "--model", "m", "--allow-egress", "a b"],
            "cannot allow egress to 'a b'",
        ),
    ],
)
def test_what_cannot_be_served_is_said_at_once(
    options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 1, and what to write instead."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLCRIB_OWNER_TOKEN", raising=False)
    done = invoke("provider", *options, env={"COLUMNS": "300", "XDG_STATE_HOME": str(tmp_path)})
    assert done.exit_code == 1
    assert told in done.stderr


@pytest.mark.parametrize("is_text_only", [True, False])
def test_a_chat_endpoint_may_be_for_text_only(is_text_only: bool) -> None:
    """Its model then gets no images."""
    backend = backend_of(BackendOptions("chat", "http://x", "m", is_text_only=is_text_only))
    assert reads_images(backend) is not is_text_only
