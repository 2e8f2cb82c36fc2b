"""Load on one server from wrk, and the CPU time that the server spent on it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Host:
    """A server that runs."""

    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """User and system time of the process so far."""
        # The name of a process may hold spaces; what follows it does not.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Memory in use now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise SystemExit("/proc has no VmRSS; this section needs Linux")


@contextmanager
def hosted(name: str) -> Generator[Host]:
    """Start a server of `servers_hosts`, and end it."""
    command = [sys.executable, str(_HERE / "servers_hosts.py"), name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise SystemExit(f"the server {name} did not start; its error is above")
        yield Host(url, process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk saw."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float


def install_wrk() -> str:
    """The path of wrk, which Debian has as a package."""
    if shutil.which("wrk") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"stdout": subprocess.DEVNULL, "check": True}
        subprocess.run(["apt-get", "update", "-q"], **quiet)
        subprocess.run(["apt-get", "install", "-qy", "--no-install-recommends", "wrk"], **quiet)
    found = shutil.which("wrk")
    if found is None:
        raise SystemExit("this section needs wrk; on Debian: sudo apt-get install wrk")
    return found


def load(
    url: str,
    headers: Mapping[str, str],
    requests: Sequence[tuple[str, bytes]],
    *,
    clients: int,
    seconds: int,
) -> Load:
    """Post bodies to paths in turns over keep-alive connections; every answer must be a 2xx."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.writelines(b"%b\t%b\n" % (path.encode(), body) for path, body in requests)
        file.flush()
        command = [install_wrk(), "-t1", f"-c{clients}", f"-d{seconds}s"]
        for name, value in headers.items():
            command += ["-H", f"{name}: {value}"]
        command += ["-s", str(_HERE / "servers.lua"), url, "--", file.name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    [told] = [line for line in done.stdout.splitlines() if line.startswith("wrk ")]
    answered, microseconds, failed, p50, p99 = map(int, told.split()[1:])
    if failed or not answered:
        raise SystemExit(f"{failed} of {answered} requests to {url} failed")
    return Load(answered, microseconds / 1e6, p50 / 1e3, p99 / 1e3)
