"""The files in deploy/ start what the package has, let nobody in who should not be, and hold no
secret. `make deploy-lint` has the programs that read them.
"""

import asyncio
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.deploy_check import EXAMPLES, interpolated
from tests.cli.command import MAIN, environment, run, serving
from tests.cli.test_help import LEAVES
from toolcrib.project import read_project

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
UNIT = (DEPLOY / "toolcrib.service").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(
    interpolated((DEPLOY / "compose.yaml").read_text("utf-8"), EXAMPLES)
)
SERVICE: dict[str, Any] = COMPOSE["services"]["toolcrib"]
REPLICAS: dict[str, Any] = yaml.safe_load(
    interpolated((DEPLOY / "compose.replicas.yaml").read_text("utf-8"), EXAMPLES)
)
REPLICA_SERVICES: dict[str, dict[str, Any]] = {
    name: service for name, service in REPLICAS["services"].items() if name.startswith("replica-")
}


def unit(key: str) -> str:
    """The value of a key of the unit."""
    [value] = re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)
    return value


def image_command() -> list[str]:
    """What the image runs."""
    [command] = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    return json.loads(command)


COMMANDS = {
    "the image": image_command(),
    "compose.yaml": SERVICE["command"],
    "compose.replicas.yaml": REPLICA_SERVICES["replica-1"]["command"],
    "the unit": shlex.split(unit("ExecStart"))[1:],
}


@pytest.mark.parametrize("place", COMMANDS)
def test_each_starts_the_server_with_options_that_it_has(place: str) -> None:
    """An option that is renamed is renamed here too."""
    name, *words = COMMANDS[place]
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    known = {option for each in LEAVES["serve"].params for option in each.opts}

    assert name == "serve"
    # Replicas name their store by a variable.
    needed = {"--http", "--host"} if place == "compose.replicas.yaml" else {"--store"}
    assert needed <= options <= known


def test_the_image_runs_as_nobody_special() -> None:
    """Not as root, with one folder to write to, and Docker asks whether it works."""
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"^VOLUME (.*)$", DOCKERFILE, re.MULTILINE) == ["/var/lib/toolcrib"]
    assert "HEALTHCHECK" in DOCKERFILE
    assert DOCKERFILE.index("USER ") < DOCKERFILE.index("ENTRYPOINT")


def test_the_image_names_its_project() -> None:
    """The folder that is mounted belongs to a user of the host, so a file that is only found there
    would be refused.
    """
    assert "TOOLCRIB_PROJECT=/etc/toolcrib/toolcrib.yaml" in DOCKERFILE
    assert any(":/etc/toolcrib:ro" in each for each in SERVICE["volumes"])


def test_no_file_holds_a_secret() -> None:
    """What is secret is mounted, loaded or set where it runs."""
    secret = re.compile(r"(?i)\b\w*(?:token|secret|password|api_key)\w*\s*[:=]\s*[\"']?[\w-]{8,}")
    # Without what Python makes of the sample project when a test imports it.
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc"]

    assert len(files) > 6
    lines = {line for path in files for line in path.read_text("utf-8").splitlines()}
    assert [line for line in lines if secret.search(line)] == []
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    # Everything is left out but what the image is made of, so no file of somebody gets in.
    assert "*" in ignored
    assert {line for line in ignored if line.startswith("!")} == {
        "!src",
        "!console",
        "!hatch_build.py",
        "!pyproject.toml",
        "!constraints.txt",
        "!README.md",
        "!LICENSE",
    }


def test_only_one_process_writes_the_store() -> None:
    """SQLite has one writer, so there is one container and one unit."""
    assert SERVICE["deploy"]["replicas"] == 1
    assert SERVICE["read_only"] is True
    assert [volume for volume in SERVICE["volumes"] if not volume.endswith(":ro")] == [
        "state:/var/lib/toolcrib"
    ]


def test_replicas_differ_only_in_where_they_are() -> None:
    """Two of them share a database and a key; each says where the other reaches it, and the
    balancer waits for both.
    """
    assert len(REPLICA_SERVICES) == 2
    for name, service in REPLICA_SERVICES.items():
        places = service["environment"]
        assert places["TOOLCRIB_REPLICA_URL"] == f"http://{name}:8420"
        assert places["TOOLCRIB_STORE"] == "postgresql://toolcrib@postgres:5432/toolcrib"
        assert places["TOOLCRIB_STORE_KEY_FILE"] == "/run/secrets/store-key"
        assert service["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        assert "ports" not in service
    proxy = REPLICAS["services"]["proxy"]
    upstreams = proxy["environment"]["TOOLCRIB_UPSTREAMS"].split()
    assert upstreams == [f"{name}:8420" for name in REPLICA_SERVICES]
    assert set(proxy["depends_on"]) == set(REPLICA_SERVICES)
    assert all("healthcheck" in service for service in REPLICAS["services"].values())
    [config] = REPLICAS["networks"]["inside"]["ipam"]["config"]
    assert f"--trusted-proxy={config['subnet']}" in REPLICA_SERVICES["replica-1"]["command"]


def test_secrets_of_replicas_are_files() -> None:
    """Neither the file nor the environment of a container has one."""
    assert {name: list(secret) for name, secret in REPLICAS["secrets"].items()} == {
        name: ["file"] for name in ("store-key", "pgpass", "database-password")
    }
    given = {name: set(each.get("secrets", ())) for name, each in REPLICAS["services"].items()}
    assert given["postgres"] == {"database-password"}
    assert given["replica-1"] == given["replica-2"] == {"store-key", "pgpass"}
    assert given["proxy"] == set()


def test_both_containers_have_a_health_check() -> None:
    """The proxy waits for a server that is ready."""
    assert all("healthcheck" in service for service in COMPOSE["services"].values())
    assert COMPOSE["services"]["proxy"]["depends_on"] == {
        "toolcrib": {"condition": "service_healthy"}
    }
    assert "ports" not in SERVICE


def test_the_server_believes_only_its_proxy() -> None:
    """The network that the proxy is in, and no other."""
    [config] = COMPOSE["networks"]["inside"]["ipam"]["config"]

    assert f"--trusted-proxy={config['subnet']}" in SERVICE["command"]


def test_the_unit_gives_away_little() -> None:
    """The token is a credential, the user is made for it, and the system is read-only."""
    assert unit("LoadCredential").startswith("owner-token:")
    assert "%d/owner-token" in unit("ExecStart")
    assert (unit("DynamicUser"), unit("ProtectSystem")) == ("yes", "strict")
    assert (unit("NoNewPrivileges"), unit("CapabilityBoundingSet")) == ("yes", "")
    assert unit("Restart") == "on-failure"


@pytest.mark.parametrize("name", ["Caddyfile", "Caddyfile.replicas", "nginx.conf"])
def test_the_proxies_keep_what_is_for_operators_inside(name: str) -> None:
    """Health and metrics are not for the internet, and events are not held back."""
    text = (DEPLOY / name).read_text("utf-8")

    assert all(path in text for path in ("metrics", "healthz", "readyz"))
    assert "flush_interval -1" in text or "proxy_buffering off" in text


def test_the_sample_project_has_no_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is read, its policy fits its tools, and nothing in it is a surprise."""
    monkeypatch.chdir(DEPLOY / "project")
    project = read_project(Path("toolcrib.yaml"))
    checked = run(
        *("policy", "check", "policy.yaml", "--strict", "--host-tools-module", "team_tools"),
        cwd=DEPLOY / "project",
    )

    assert project.tools.modules == ("team_tools",)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.wire
async def test_what_the_image_runs_is_healthy_and_closed(tmp_path: Path) -> None:
    """With a token made beforehand it starts; health needs none, and everything else does."""
    made = run("tokens", "create", "ann", "--role", "admin", XDG_STATE_HOME=str(tmp_path))
    assert made.returncode == 0, made.stderr
    words = [*image_command()[2:]]
    words[words.index("--store") + 1] = str(tmp_path / "crib.sqlite3")
    state = {"XDG_STATE_HOME": str(tmp_path)}

    async with serving(*words, cwd=DEPLOY / "project", tokens=(), **state) as served:
        port = served.url.rpartition(":")[2].rstrip("/")
        [probe] = re.findall(r"HEALTHCHECK.*\\\n\s+CMD (\[.*\])", DOCKERFILE)
        code = json.loads(probe)[2].replace(":8420/", f":{port}/")
        healthy = run_python(code)
        url = f"http://127.0.0.1:{port}"
        asked = await asyncio.to_thread(
            lambda: run("sessions", "list", "--url", url, TOOLCRIB_TOKEN="tc_nobody_nothing")
        )
        assert await served.stop() == 0

    assert healthy.returncode == 0, healthy.stderr
    assert asked.returncode == 1
    assert "this token is not known here" in asked.stderr


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MAIN[0], "-c", code], capture_output=True, text=True, check=False, env=environment()
    )
