"""The forwarder program: the way from a sandbox without a network to a proxy outside of it.

It runs as a file of its own and imports nothing of this package. It listens on the sandbox's own
loopback, passes every connection on to a socket file, and becomes the command whose proxy it is.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from contextlib import suppress

PIECE = 65_536
BACKLOG = 64


def main() -> None:
    """Start to forward, then become the command: `forwarder.py SOCKET PORT PROGRAM ARGUMENT…`."""
    path, port, argv = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    middle = os.fork()
    if middle == 0:
        # The command must not find a child of its own that it did not start.
        if os.fork() == 0:
            _serve(listener, path)
        os._exit(0)
    listener.close()
    os.waitpid(middle, 0)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _serve(listener: socket.socket, path: str) -> None:
    """Forward until the sandbox ends."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    others: dict[socket.socket, socket.socket] = {}
    unsent: dict[socket.socket, bytes] = {}
    while True:
        readers = [s for s, other in others.items() if not unsent.get(other)]
        writers = [s for s, data in unsent.items() if data]
        readable, writable, _ = select.select([listener, *readers], writers, [])
        for each in readable:
            if each is listener:
                _accept(listener, path, others)
            elif each in others:
                _read(each, others, unsent)
        for each in writable:
            if each in others:
                _write(each, others, unsent)


def _accept(listener: socket.socket, path: str, others: dict[socket.socket, socket.socket]) -> None:
    with suppress(OSError):
        near, _ = listener.accept()
        far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            far.connect(path)
        except OSError:
            near.close()
            far.close()
            return
        near.setblocking(False)
        far.setblocking(False)
        others[near], others[far] = far, near


def _read(
    source: socket.socket,
    others: dict[socket.socket, socket.socket],
    unsent: dict[socket.socket, bytes],
) -> None:
    try:
        data = source.recv(PIECE)
    except BlockingIOError:
        return
    except OSError:
        data = b""
    if not data:
        _close(source, others, unsent)
        return
    unsent[others[source]] = data
    _write(others[source], others, unsent)


def _write(
    target: socket.socket,
    others: dict[socket.socket, socket.socket],
    unsent: dict[socket.socket, bytes],
) -> None:
    try:
        sent = target.send(unsent[target])
    except BlockingIOError:
        return
    except OSError:
        _close(target, others, unsent)
        return
    unsent[target] = unsent[target][sent:]


def _close(
    one: socket.socket,
    others: dict[socket.socket, socket.socket],
    unsent: dict[socket.socket, bytes],
) -> None:
    for each in (one, others.pop(one)):
        others.pop(each, None)
        unsent.pop(each, None)
        each.close()


if __name__ == "__main__":
    main()
