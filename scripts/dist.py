"""Build the sdist and the wheel into dist/, check them, and run the wheel in a fresh environment.

Usage: .venv/bin/python scripts/dist.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from hashlib import sha256
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PACKAGE = ROOT / "src" / "toolcrib"
PAGE = ROOT / "console" / "dist"
PAGE_PLACE = "toolcrib/transports/http/page"
"""Where the wheel has the console."""
DEMO_EXTRAS = "cli,code,mcp,openai,sandbox,search,server"
# Runs in the fresh environment, isolated from this checkout but for the runner of the blocks.
FIRST_PROGRAM = """
import sys
sys.path.append(sys.argv[1] + "/tests")
from pathlib import Path
from docs_runner import blocks_under, run_blocks
import toolcrib
assert Path(toolcrib.__file__).is_relative_to(sys.prefix), toolcrib.__file__
blocks = blocks_under(Path(sys.argv[1], "README.md"), "## A tool and a call")
assert blocks, "README.md has no first program"
run_blocks(blocks)
"""

# Runs in the fresh environment: the installed wheel gives browsers the console.
SERVED_PAGE = """
import asyncio, re, urllib.request
from toolcrib.runtime import RuntimeConfig, create_runtime
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.transports.http import HttpServer

def text_at(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()

async def main():
    tokens = Tokens([Token("0123456789-0123456789-0123456789")])
    async with create_runtime(RuntimeConfig()) as runtime:
        async with HttpServer(runtime, port=0, tokens=tokens) as server:
            page = await asyncio.to_thread(text_at, server.url + "/inbox")
            files = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)
            assert any(name.endswith(".js") for name in files), page
            for name in files:
                assert await asyncio.to_thread(text_at, server.url + name), name

asyncio.run(main())
"""


def contents(wheel: Path) -> dict[str, str]:
    """The files in a wheel, each with the digest of its content."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def differences(left: dict[str, str], right: dict[str, str]) -> list[str]:
    """The files that only one of two wheels has, or that differ between them."""
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def package_files(package: Path) -> dict[str, str]:
    """The files that the wheel must have, each with the digest of its content."""
    return {
        path.relative_to(package.parent).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def page_files(page: Path) -> dict[str, str]:
    """The files of the console that the wheel must have, each with the digest of its content."""
    return {
        f"{PAGE_PLACE}/{path.relative_to(page).as_posix()}": sha256(path.read_bytes()).hexdigest()
        for path in page.rglob("*")
        if path.is_file()
    }


def metadata(wheel: Path) -> Metadata:
    """The wheel's metadata. Raises an `ExceptionGroup` that names every invalid field."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA")]
        return Metadata.from_email(archive.read(name), validate=True)


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without this process's Python settings and give its output."""
    environment = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, command))} failed with {done.returncode}")
    return done.stdout


def build(scratch: Path) -> Path:
    """Build both distributions into dist/. The wheel comes from the sdist; it must equal the wheel
    that the checkout gives, and hold every file of the package and of the console.
    """
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, ROOT / "scripts" / "console.py", cwd=scratch)
    builder = (sys.executable, "-m", "build", "--no-isolation")
    run(*builder, "--outdir", DIST, ROOT, cwd=scratch)
    run(*builder, "--wheel", "--outdir", scratch, ROOT, cwd=scratch)
    (wheel,), (direct,) = DIST.glob("*.whl"), scratch.glob("*.whl")

    if unequal := differences(contents(wheel), contents(direct)):
        sys.exit(f"the wheel from the sdist differs from the checkout's: {', '.join(unequal)}")
    packed = {name: digest for name, digest in contents(wheel).items() if "dist-info/" not in name}
    if unequal := differences(packed, package_files(PACKAGE) | page_files(PAGE)):
        sys.exit(f"the wheel differs from src/toolcrib and console/dist: {', '.join(unequal)}")
    return wheel


def try_out(wheel: Path, version: str, scratch: Path) -> None:
    """Install the wheel into a fresh environment and run it outside the checkout: README's first
    program with the core alone, then the command and the demo with their extras.
    """
    environment = scratch / "environment"
    run(sys.executable, "-m", "venv", environment, cwd=scratch)
    python, command = environment / "bin" / "python", environment / "bin" / "toolcrib"
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    constraints = ("--constraint", ROOT / "constraints.txt")

    run(*install, *constraints, wheel, cwd=scratch)
    run(python, "-I", "-c", FIRST_PROGRAM, ROOT, cwd=scratch)

    run(*install, *constraints, f"{wheel}[{DEMO_EXTRAS}]", cwd=scratch)
    run(python, "-m", "pip", "check", cwd=scratch)
    shown = run(command, "--version", cwd=scratch)
    if version not in shown.split():
        sys.exit(f"toolcrib --version shows {shown.strip()!r}, not {version}")
    run(python, "-I", "-c", SERVED_PAGE, cwd=scratch)
    run(command, "demo", cwd=scratch)


def main() -> None:
    """Build, check, and try out."""
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        wheel = build(scratch)
        facts = metadata(wheel)
        try_out(wheel, str(facts.version), scratch)
    for path in sorted(DIST.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
