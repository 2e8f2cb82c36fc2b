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
    ways: dict[socket.socket, Way] = {}
    while True:
        readers = [each for each, way in ways.items() if way.is_open and not way.unsent]
        writers = [way.target for way in ways.values() if way.unsent]
        readable, writable, _ = select.select([listener, *readers], writers, [])
        for each in readable:
            if each is listener:
                _accept(listener, path, ways)
            elif each in ways:
                _forward(ways, each, is_readable=True)
        for each in writable:
            if each in ways:
                _forward(ways, ways[each].target, is_readable=False)


class Way:
    """One direction of a connection: where its bytes go, and those that wait to be sent."""

    def __init__(self, target: socket.socket) -> None:
        self.target = target
        self.unsent = b""
        self.is_open = True


def _accept(listener: socket.socket, path: str, ways: dict[socket.socket, Way]) -> None:
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
        ways[near], ways[far] = Way(far), Way(near)


def _forward(ways: dict[socket.socket, Way], source: socket.socket, *, is_readable: bool) -> None:
    """Read what came and send what can be sent. An end is passed on; after both, or when one side
    fails, the connection is closed.
    """
    way = ways[source]
    try:
        if is_readable:
            way.unsent = source.recv(PIECE)
            way.is_open = bool(way.unsent)
        if way.unsent:
            way.unsent = way.unsent[way.target.send(way.unsent) :]
        if not way.is_open:
            way.target.shutdown(socket.SHUT_WR)
    except BlockingIOError:
        return
    except OSError:
        way.is_open = ways[way.target].is_open = False
    if not way.is_open and not ways[way.target].is_open:
        for each in (source, way.target):
            ways.pop(each)
            each.close()


if __name__ == "__main__":
    main()
