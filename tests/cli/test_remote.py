"""Asking a server: which one, with which token, and what if it is none of ours."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.cli.command import invoke
from toolcrib.client import Client
from toolcrib.errors import Refused

pytestmark = pytest.mark.usefixtures("folder")

TOKEN = "t" * 32
LIST = ("approvals", "list")


class Stub(HTTPServer):
    """A server that says one thing to everybody, and remembers who asked."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.status, self.body, self.headers = status, body, headers
        self.seen: list[tuple[str, str, str | None, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    def answer(self) -> None:
        stub = self.server
        assert isinstance(stub, Stub)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        stub.seen.append((self.command, self.path, self.headers["Authorization"], body))
        self.send_response(stub.status)
        for name, value in stub.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(stub.body)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def stub(status: int = 200, body: object = None, **headers: str) -> Generator[Stub]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    server = Stub(status, text, headers)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield server
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


class TestWhichServer:
    def test_the_environment_names_one(self) -> None:
        """TOOLCRIB_URL is asked where nothing of this machine is named, with TOOLCRIB_TOKEN."""
        with stub(body={"approvals": []}) as server:
            env = {"TOOLCRIB_URL": server.url, "TOOLCRIB_TOKEN": TOKEN}
            done = invoke(*LIST, env=env)

        assert (done.exit_code, done.stdout) == (0, "")
        assert [each[2] for each in server.seen] == [f"Bearer {TOKEN}"]

    def test_what_is_here_comes_first(self) -> None:
        """With tools of this machine, the server of the environment is not asked."""
        with stub() as server:
            env = {"TOOLCRIB_URL": server.url, "TOOLCRIB_TOKEN": TOKEN}
            done = invoke("tools", "list", "--host-tools-module", "cli_tools", env=env)

        assert done.exit_code == 0
        assert server.seen == []

    def test_who_decides_is_whose_token_it_is(self) -> None:
        """A name that the server would not believe is wrong use."""
        done = invoke("approvals", "approve", "a", "--url", "http://127.0.0.1:1", "--by", "ada")

        assert done.exit_code == 2
        assert "--by is for --store" in done.stderr

    def test_a_token_in_the_clear_is_warned_about(self) -> None:
        """Beyond this machine, http shows the token to the network."""
        done = invoke(*LIST, "--url", "http://0.0.0.0:1", env={"TOOLCRIB_TOKEN": TOKEN})

        assert "unencrypted" in done.stderr


class TestWhatIsAsked:
    def test_parameters_go_where_the_route_has_them(self) -> None:
        """In the path, quoted; in the query of a GET; in the body of a POST."""
        refused = {"error": {"kind": "not_found", "message": "no"}}
        with stub(404, refused) as server, Client(f"{server.url}/base/", TOKEN) as remote:
            for operate in (
                lambda: remote.get_approval("a/b"),
                lambda: remote.list_approvals(is_all=True),
                lambda: remote.create_session(metadata={"a": 1}),
                lambda: remote.revoke_grant("g"),
            ):
                with pytest.raises(Refused):
                    operate()

        made = b'{"metadata":{"a":1},"client_tools":[],"is_temporary":false}'
        assert [(verb, path, body) for verb, path, _, body in server.seen] == [
            ("GET", "/base/v1/approvals/a%2Fb", b""),
            ("GET", "/base/v1/approvals?is_all=true", b""),
            ("POST", "/base/v1/sessions", made),
            ("DELETE", "/base/v1/grants/g", b""),
        ]

    def test_a_redirect_is_not_followed(self) -> None:
        """The token is for one server; where that points to does not get it."""
        with (
            stub(body={"approvals": []}) as other,
            stub(302, body=b"", Location=other.url) as server,
        ):
            done = invoke(*LIST, "--url", server.url, env={"TOOLCRIB_TOKEN": TOKEN})

        assert done.exit_code == 1
        assert (len(server.seen), other.seen) == (1, [])

    def test_no_proxy_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A proxy of the environment would read the token."""
        with stub(body={"approvals": []}) as server, stub() as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.setenv("all_proxy", proxy.url)
            done = invoke(*LIST, "--url", server.url, env={"TOOLCRIB_TOKEN": TOKEN})

        assert done.exit_code == 0
        assert (len(server.seen), proxy.seen) == (1, [])


class TestWhatIsAnswered:
    def test_a_refusal_is_told_as_the_server_told_it(self) -> None:
        """With the kind for programs."""
        told = {"error": {"kind": "conflict", "message": "too late"}}
        with (
            stub(409, told) as server,
            Client(server.url, TOKEN) as remote,
            pytest.raises(Refused, match="too late") as refused,
        ):
            remote.list_grants()

        assert refused.value.kind == "conflict"

    def test_a_refusal_of_an_unknown_kind_is_one_too(self) -> None:
        """A newer server may have more kinds."""
        told = {"error": {"kind": "novel", "message": "no"}}
        with (
            stub(418, told) as server,
            Client(server.url, TOKEN) as remote,
            pytest.raises(Refused) as refused,
        ):
            remote.list_grants()

        assert refused.value.kind == "internal"

    @pytest.mark.parametrize(
        ("status", "body"), [(200, b"<html>"), (404, b"<html>"), (500, b"[]"), (404, b"{}")]
    )
    def test_a_server_that_is_none_of_ours_is_told(self, status: int, body: bytes) -> None:
        """The error says what to look at."""
        with stub(status, body) as server:
            done = invoke(*LIST, "--url", server.url, env={"TOOLCRIB_TOKEN": TOKEN})

        assert (done.exit_code, done.stdout) == (1, "")
        assert "check --url" in done.stderr
