"""Every attempt to get out of the sandbox or to use up the machine fails, on either backend, as
root and as a user without any rights.
"""

import os
import secrets
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.escapes import CASES
from tests.sandbox.survivors import survivors
from tests.sandbox.trial import SECRET_VARIABLE
from toolcrib.sandbox.python import library_folders

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NOBODY = 65534
BACKENDS = ("bubblewrap", "sandlock")
IS_ROOT = os.geteuid() == 0
AS_USER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")


def interpreter_for_anybody() -> str | None:
    """This version of Python where a user without rights can start it and find it."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    check = "import os, sys; os.stat(sys.executable)"
    for candidate in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        command = [*AS_USER, candidate, "-c", check]
        if subprocess.run(command, env=environment(), capture_output=True).returncode == 0:
            return candidate
    return None


def environment() -> dict[str, str]:
    """What a case is run with: the way to the package and something to lose."""
    folders = [str(ROOT), str(ROOT / "src"), *map(str, library_folders())]
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(Path.home()) if IS_ROOT else os.environ.get("HOME", "/"),
        "PYTHONPATH": ":".join(folders),
        "PYTHONDONTWRITEBYTECODE": "1",
        SECRET_VARIABLE: secrets.token_hex(16),
    }


def try_case(*command: str) -> None:
    done = subprocess.run(command, env=environment(), cwd="/", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_a_program_of_whoever_runs_the_tests_is_contained(case: str, backend: str) -> None:
    """R44: whatever a confined program tries, nothing outside of it changes or is seen."""
    try_case(sys.executable, "-m", "tests.sandbox.escapes", backend, case)


@pytest.mark.skipif(not IS_ROOT, reason="the tests above run as a user already")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_a_program_of_a_user_without_rights_is_contained(case: str, backend: str) -> None:
    """R44: the same where there is no root to make the sandbox."""
    python = interpreter_for_anybody()
    if python is None:
        pytest.skip("no Python of this version that a user without rights can start")

    try_case(*AS_USER, python, "-m", "tests.sandbox.escapes", backend, case)


PARENT = """
import asyncio, sys
from toolcrib.sandbox import Command, SandboxLimits, WorkDirectory, find_sandbox

async def main(backend, token):
    sandbox = await find_sandbox(backend)
    with WorkDirectory.temporary() as work:
        command = Command(argv=("/bin/sh", "-c", sys.argv[3], token))
        process = await sandbox.open(command, work=work)
        print((await process.stdout.readline()).decode().strip(), flush=True)
        await process.wait()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""

# One waits in a session of its own for a line that never comes, and one for its stdin.
IN_THE_BACKGROUND = """
mkfifo fifo
(setsid /bin/sh -c 'read line <fifo; : $0' "$0" &)
echo started
read line
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_runs_ends_when_its_parent_is_killed(backend: str, tmp_path: Path) -> None:
    """R44: a program that dies leaves no confined process, also none in the background."""
    token = f"orphan-{secrets.token_hex(8)}"
    command = [sys.executable, "-c", PARENT, backend, token, IN_THE_BACKGROUND]
    env = {**environment(), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        left = [os.pidfd_open(pid) for pid in survivors(token) if pid != parent.pid]
        assert left

        parent.kill()
        waiting = select.poll()
        for descriptor in left:
            waiting.register(descriptor, select.POLLIN)
        while left and waiting.poll(10_000):
            for descriptor, _ in waiting.poll(0):
                waiting.unregister(descriptor)
                left.remove(descriptor)
                os.close(descriptor)
        assert left == []
    assert parent.returncode == -signal.SIGKILL
    assert survivors(token) == []
