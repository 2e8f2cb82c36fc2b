"""Programs that try to see or change something outside, each with what must hold."""

import os
import secrets
from pathlib import Path

from tests.sandbox.trial import (
    MEBIBYTE,
    SECRET_VARIABLE,
    Trial,
    existing,
    listeners,
    refusal,
    secret_files,
    texts,
)
from toolcrib.sandbox import (
    SandboxLimits,
    WorkDirectory,
)

READ = """
import os, sys
for path in sys.argv[2:]:
    try:
        with open(path, "rb") as file:
            print("READ", path, file.read(4096))
    except OSError as error:
        print("refused", error.errno)
try:
    print("LISTED", os.listdir(os.path.dirname(sys.argv[2])))
except OSError as error:
    print("refused", error.errno)
"""


async def reading_outside(trial: Trial) -> None:
    """Files that were not given cannot be read: in the home, in /tmp, the system's own."""
    secret = secrets.token_hex(16)
    with secret_files(secret) as files:
        # A way round by /proc leads to the sandbox's own files, never to the machine's.
        round_about = [f"/proc/{pid}/root{path}" for pid in (1, "self") for path in files]
        paths = [*files, "/etc/shadow", "/etc/gshadow", "/proc/1/environ", *round_about]
        finished = await trial.python(READ, *paths)

    lines = finished.stdout.decode().splitlines()
    read = {line.split()[1] for line in lines if line.startswith("READ")}
    assert len(lines) == len(paths) + 1, finished.stderr
    assert read <= {"/proc/1/environ"}
    assert secret not in finished.stdout.decode()
    assert "LISTED" not in finished.stdout.decode() or "secret" not in lines[-1]


WRITE = """
import sys
for path in sys.argv[2:]:
    try:
        with open(path, "w") as file:
            file.write("was here")
    except OSError as error:
        print("refused", error.errno)
with open("inside", "w") as file:
    file.write("fine")
"""


async def writing_outside(trial: Trial) -> None:
    """Nothing outside the work directory is written, made or replaced."""
    name = f"toolcrib-{secrets.token_hex(8)}"
    with secret_files("kept") as files, WorkDirectory.temporary() as work:
        folders = ("/tmp", "/var/tmp", "/dev/shm", "/", "/etc", "/usr", "/dev", str(Path.home()))
        new = [str(Path(folder, name)) for folder in folders]
        finished = await trial.python(WRITE, *files, *new, work=work)

        assert texts(files) == ["kept"] * len(files)
        assert existing(new) == []
        assert work.read("inside", 10) == b"fine", finished.stderr


CONNECT = """
import socket, sys
def attempt(kind, *parts):
    family, type, address = parts
    try:
        with socket.socket(family, type) as line:
            line.settimeout(3)
            line.connect(address)
            line.send(b"hello")
        print("reached", kind)
    except OSError as error:
        print("refused", kind, error)
port, udp, path, name = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
attempt("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port))
attempt("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", udp))
attempt("unix", socket.AF_UNIX, socket.SOCK_STREAM, path)
attempt("abstract", socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + name)
attempt("outside", socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53))
attempt("hypervisor", socket.AF_VSOCK, socket.SOCK_STREAM, (2, 1024))
"""


async def network(trial: Trial) -> None:
    """Neither TCP nor UDP, neither this machine nor others, nor its sockets in files, are reached;
    TCP and UDP are when they are allowed.
    """
    for allowed in (False, True):
        with listeners() as (addresses, heard):
            finished = await trial.python(CONNECT, *addresses, network=allowed)
            # A network that is shared is shared with its sockets that have only a name.
            found = heard() - {"abstract"} if allowed else heard()

        assert finished.exit_code == 0, finished.stderr
        assert found == ({"tcp", "udp"} if allowed else set()), finished.stdout
        assert b"reached hypervisor" not in finished.stdout
        if not allowed:
            # A datagram to its own empty machine is sent, and nobody gets it.
            assert b"reached" not in finished.stdout.replace(b"reached udp", b"")


LOOK_AROUND = """
import os, sys
print(sorted(os.environ))
around = range(int(sys.argv[2]) - 500, int(sys.argv[2]) + 500)
for name in ["self", *map(str, range(1, 500)), *map(str, around)]:
    for file in ("environ", "cmdline"):
        try:
            with open(f"/proc/{name}/{file}", "rb") as found:
                print(name, found.read())
        except OSError:
            pass
"""


async def parents_environment(trial: Trial) -> None:
    """What is in the environment of the program outside is in no /proc inside."""
    secret = os.environ[SECRET_VARIABLE]
    assert secret in texts(["/proc/self/environ"])[0]

    limits = SandboxLimits(seconds=30, output_bytes=8 * MEBIBYTE)
    finished = await trial.python(LOOK_AROUND, os.getpid(), limits=limits)

    assert finished.exit_code == 0, finished.stderr
    names = finished.stdout.splitlines()[0].decode()
    assert names in ("[]", "['LC_CTYPE']", "['PWD']", "['LC_CTYPE', 'PWD']")
    assert secret.encode() not in finished.stdout
    assert SECRET_VARIABLE.encode() not in finished.stdout


LINKS = """
import os, sys
target = sys.argv[2]
os.symlink(target, "result.txt")
os.symlink(os.path.dirname(target), "folder")
os.mkfifo("pipe")
os.mkdir("deep")
os.symlink("../../../../../../../../../../etc/passwd", "deep/up")
for source in (target, "/etc/passwd", sys.executable):
    try:
        os.link(source, "hard")
        print("LINKED", source)
    except OSError as error:
        print("refused", error.errno)
with open("plain.txt", "w") as file:
    file.write("fine")
"""


async def symlink_tricks(trial: Trial) -> None:
    """A link in the work directory leads nobody out of it, neither to read nor to write."""
    with secret_files("kept") as files, WorkDirectory.temporary() as work:
        target = Path(files[0])
        finished = await trial.python(LINKS, target, work=work)
        assert finished.exit_code == 0, finished.stderr
        assert b"LINKED" not in finished.stdout

        assert [file.name for file in work.files()] == ["plain.txt"]
        for name in ("result.txt", f"folder/{target.name}", "deep/up", "pipe"):
            assert refusal(lambda name=name: work.read(name, 1000)) is not None
        assert refusal(lambda: work.write(f"folder/{target.name}", b"gone")) is not None
        work.write("result.txt", b"mine")
        assert work.read("result.txt", 1000) == b"mine"
        work.delete("folder")
        assert texts(files) == ["kept"] * len(files)


POWERS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    result = getattr(libc, name)(*arguments)
    print(name, result, ctypes.get_errno())
attempt("unshare", 0x10000000)
attempt("unshare", 0x00020000)
attempt("mount", b"none", b".", b"tmpfs", 0, None)
attempt("chroot", b".")
attempt("ptrace", 16, int(sys.argv[2]), 0, 0)
attempt("sethostname", b"mine", 4)
attempt("setresuid", 0, 0, 0) if os.getuid() else None
attempt("kill", int(sys.argv[2]), 9)
attempt("mknod", b"device", 0o60600, 0x801)
"""


async def privileges(trial: Trial) -> None:
    """It has no powers: no namespaces, no mounts, no other user, no hold on processes outside."""
    finished = await trial.python(POWERS, os.getpid())

    lines = finished.stdout.decode().splitlines()
    assert len(lines) >= 8, finished.stderr
    assert {line.split()[1] for line in lines} == {"-1"}, lines


DESCRIPTORS = """
import os
for number in range(3, 200):
    try:
        print(number, os.pread(number, 1000, 0))
    except OSError:
        pass
"""


async def descriptors(trial: Trial) -> None:
    """A file that the program outside has open is not open inside."""
    with secret_files("hidden") as files:
        descriptor = os.open(files[0], os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        finished = await trial.python(DESCRIPTORS)
        os.close(descriptor)

    assert finished.exit_code == 0
    assert b"hidden" not in finished.stdout
