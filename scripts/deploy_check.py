"""Check the files in deploy/ as far as this machine can: python scripts/deploy_check.py [--build]

A program that belongs to the environment of developers has to be there. One that belongs to the
machine (Docker, systemd) may be missing; then the check is skipped, and the summary says so.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
MOST_EXPOSED = 2.5
"""What `systemd-analyze security` may say of the unit at most, from 0 to 10."""
COMPOSE_FILES = ("compose.yaml", "compose.replicas.yaml")
EXAMPLES = {"TOOLCRIB_HOST": "crib.example.com"}


class Skipped(Exception):
    """This machine cannot check it."""


class Fault(Exception):
    """The check failed."""


def run(*command: str | Path, **environment: str) -> str:
    """What a program prints. Raises `Fault` when it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        raise Fault(f"{Path(str(command[0])).name}: {(done.stdout + done.stderr).strip()}")
    return done.stdout + done.stderr


def of_the_machine(name: str) -> str:
    """A program that need not be there."""
    path = shutil.which(name)
    if path is None:
        raise Skipped(f"there is no {name}")
    return path


def check_dockerfile() -> None:
    """The linter for Dockerfiles has no advice."""
    run(BIN / "hadolint", "--failure-threshold", "info", DEPLOY / "Dockerfile")


def check_image() -> None:
    """The image can be built."""
    docker = of_the_machine("docker")
    try:
        run(docker, "info")
    except Fault:
        raise Skipped("no Docker daemon answers") from None
    run(docker, "build", "--file", DEPLOY / "Dockerfile", "--tag", "toolcrib:check", ROOT)


def check_compose() -> None:
    """The compose files have only keys and values of the Compose Specification."""
    compose_spec: Any = import_module("compose_spec")
    for name in COMPOSE_FILES:
        text = interpolated((DEPLOY / name).read_text("utf-8"), EXAMPLES)
        try:
            # Merge keys belong to YAML, and this reader does not know them.
            compose_spec.PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(text)))
        except ValueError as error:
            raise Fault(f"{name}: {error}") from None


def interpolated(text: str, values: dict[str, str]) -> str:
    """The text with `${NAME}`, `${NAME:-default}` and `${NAME:?message}` replaced."""

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if name not in values and default is None:
            raise Fault(f"compose.yaml: {name} has neither a value nor a default")
        return values.get(name, default)

    name = r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*)|:\?[^}]*)?\}"
    return re.sub(name, value, text)


def check_compose_with_docker() -> None:
    """Docker itself reads the compose files."""
    docker = of_the_machine("docker")
    try:
        run(docker, "compose", "version")
    except Fault:
        raise Skipped("docker has no compose") from None
    for name in COMPOSE_FILES:
        run(docker, "compose", "--file", DEPLOY / name, "config", "--quiet", **EXAMPLES)


def check_caddy() -> None:
    """Caddy takes its files."""
    caddy = BIN / "caddy"
    for name in ("Caddyfile", "Caddyfile.replicas"):
        run(caddy, "validate", "--adapter", "caddyfile", "--config", DEPLOY / name)
        run(caddy, "fmt", "--diff", DEPLOY / name)


def check_scripts() -> None:
    """The shell takes the script that makes secrets, and nobody else may read what it makes."""
    script = DEPLOY / "replica-secrets.sh"
    with tempfile.TemporaryDirectory() as folder:
        run("sh", script, Path(folder, "secrets"))
        made = sorted(Path(folder, "secrets").iterdir())
        names = [path.name for path in made]
        if names != ["database-password", "pgpass", "store-key"]:
            raise Fault(f"{script.name} made {names}")
        if any(path.stat().st_mode & 0o077 for path in made):
            raise Fault(f"{script.name}: others may read what it made")


def check_nginx() -> None:
    """Nginx takes its file, with a certificate made for the check."""
    nginx, openssl = of_the_machine("nginx"), of_the_machine("openssl")
    with tempfile.TemporaryDirectory() as folder:
        cert, key = Path(folder, "cert.pem"), Path(folder, "key.pem")
        subject = ("-subj", "/CN=crib.example.com", "-days", "1", "-nodes", "-x509")
        run(openssl, "req", "-newkey", "rsa:2048", *subject, "-keyout", key, "-out", cert)
        text = (DEPLOY / "nginx.conf").read_text("utf-8")
        text = re.sub(r"/etc/letsencrypt\S+fullchain.pem", str(cert), text)
        text = re.sub(r"/etc/letsencrypt\S+privkey.pem", str(key), text)
        Path(folder, "site.conf").write_text(text, "utf-8")
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        paths += " access_log off;"
        main = f"pid {folder}/pid;\nevents {{}}\nhttp {{ {paths} include {folder}/site.conf; }}\n"
        Path(folder, "nginx.conf").write_text(main, "utf-8")
        run(nginx, "-t", "-e", f"{folder}/log", "-c", f"{folder}/nginx.conf")


def check_units() -> None:
    """Systemd takes the units, and finds little that they could do to the machine."""
    analyze = of_the_machine("systemd-analyze")
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")]):
            # The program has to be where the unit says.
            text = source.read_text("utf-8").replace("/opt/toolcrib/bin/", f"{BIN}/")
            Path(folder, source.name).write_text(text, "utf-8")
        units = sorted(Path(folder).iterdir())
        if warnings := run(analyze, "verify", *units).strip():
            raise Fault(warnings)
        limit = str(int(MOST_EXPOSED * 10))
        for unit in (unit for unit in units if unit.suffix == ".service"):
            run(analyze, "security", "--offline=true", f"--threshold={limit}", unit)


CHECKS: tuple[Callable[[], None], ...] = (
    check_dockerfile,
    check_compose,
    check_compose_with_docker,
    check_caddy,
    check_scripts,
    check_nginx,
    check_units,
)


def main() -> int:
    """Run the checks; 1 when one failed."""
    faults, skipped = 0, 0
    checks = (*CHECKS, check_image) if "--build" in sys.argv[1:] else CHECKS
    for check in checks:
        about = (check.__doc__ or "").split(".")[0]
        try:
            check()
            print(f"ok       {about}")
        except Skipped as reason:
            skipped += 1
            print(f"SKIPPED  {about}: {reason}")
        except (Fault, OSError, ImportError) as error:
            faults += 1
            print(f"FAILED   {about}:\n{error}")
    print(f"deploy/: {len(checks) - faults - skipped} ok, {skipped} SKIPPED, {faults} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
