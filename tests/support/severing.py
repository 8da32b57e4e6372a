"""A proxy in front of PostgreSQL that breaks connections at a chosen moment of a commit."""

from __future__ import annotations

import contextlib
import selectors
import socket
import tempfile
import threading
from pathlib import Path
from typing import Literal

Moment = Literal["before commit", "after commit"]
SOCKET_NAME = ".s.PGSQL.5432"


class SeveringProxy:
    """Forwards a Unix socket. Armed, it breaks the next connection that commits a group of the writer.

    `before commit`: the server never hears of it. `after commit`: the server has answered, and the client
    never hears of that.
    """

    def __init__(self, server_folder: str) -> None:
        self._server = f"{server_folder}/{SOCKET_NAME}"
        self._folder = tempfile.TemporaryDirectory(prefix="hostler-px-", dir="/tmp")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self._folder.name) / SOCKET_NAME))
        self._listener.listen()
        self._moment: Moment | None = None
        self._leaves = False
        self.away = False
        """Whether new connections are closed at once."""
        self.severed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database_url: str) -> str:
        """The address of a database through this proxy."""
        name = database_url.removeprefix("postgresql:///").partition("?")[0]
        return f"postgresql:///{name}?host={self._folder.name}&user=postgres"

    def arm(self, moment: Moment, *, leaves: bool = False) -> None:
        """Break the next commit, once. `leaves`: from then on it takes no connections."""
        self._moment, self._leaves = moment, leaves

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
        self._folder.cleanup()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                if self.away:
                    client.close()
                    continue
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as ready:
            server.connect(self._server)
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    data = source.recv(65536)
                    if not data:
                        return
                    severs = source is client and self._moment is not None and b"SET last_group" in data
                    if severs:
                        moment, self._moment = self._moment, None
                        self.severed += 1
                        self.away = self._leaves
                        if moment == "after commit":
                            server.sendall(data)
                            _until_idle(server)
                        return
                    target.sendall(data)


def _until_idle(server: socket.socket) -> None:
    """Read until the server says that it is ready and in no transaction: the commit is done."""
    received = b""
    while not received.endswith(b"Z\x00\x00\x00\x05I"):
        data = server.recv(65536)
        assert data
        received += data
