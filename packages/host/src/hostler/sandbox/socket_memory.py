"""What sockets of a sandbox hold in the kernel: data that was sent and not read, and sockets on their way.

Asked of the kernel by sock_diag, through a socket that belongs to the network of the sandbox. Runs in the
shim, with only the standard library.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_RAW, SOCK_DGRAM, NETLINK_SOCK_DIAG, IPPROTO_TCP = 3, 2, 4, 6
SOCK_DIAG_BY_FAMILY, NLMSG_ERROR, NLMSG_DONE, DUMP_REQUEST = 20, 2, 3, 0x301
SHOW_QUEUES, UNIX_QUEUES = 0x10, 4
SHOW_MEMORY, INET_MEMORY = 0x40, 7
LISTENING = 10
HEADER = struct.Struct("=IHHII")
UNIX_REQUEST, UNIX_ANSWER = struct.Struct("=BBHIIIII"), struct.Struct("=BBBBIII")
INET_REQUEST, INET_ANSWER_BYTES = struct.Struct("=BBBBI48x"), 72
ATTRIBUTE, QUEUES, MEMORY = struct.Struct("=HH"), struct.Struct("=II"), struct.Struct("=9I")
MAX_DATAGRAMS = 10
"""Messages that wait in one socket for datagrams (max_dgram_qlen, by default)."""
DEFAULT_BUFFER_BYTES = 212_992
REST_FACTOR = 20
"""A look is followed by a pause of this many times its processor time."""
ANSWER_SECONDS = 1.0


class _UnixSocket(NamedTuple):
    inode: int
    kind: int
    is_listening: bool
    waiting: int
    """Bytes to read, or connections to accept."""


class SocketMemory:
    """The sockets of one sandbox, once `adopt` has given it the way to ask for them."""

    def __init__(self) -> None:
        self._diag: Any = None
        self._all_own = False
        self._last = 0
        self._rest_until = 0.0
        self._buffer = _buffer_bytes()

    def adopt(self, diag: Any, *, all_own: bool) -> None:
        """Ask through this socket. `all_own`: its network has no sockets but those of the sandbox."""
        diag.settimeout(ANSWER_SECONDS)
        self._diag, self._all_own = diag, all_own

    @property
    def is_known(self) -> bool:
        """Whether sockets can be asked for here."""
        return self._diag is not None

    def look(self, pids: Sequence[int]) -> int:
        """Return the most bytes that wait in the sockets of these processes; at times the last result."""
        if self._diag is None or time.monotonic() < self._rest_until:
            return self._last
        began = time.thread_time()
        with suppress(OSError):
            own = None if self._all_own else _socket_inodes(pids)
            size = sum(self._held(one) for one in self._unix() if own is None or one.inode in own)
            if own is None:
                size += sum(self._inet(AF_INET)) + sum(self._inet(AF_INET6))
            self._last = size
        self._rest_until = time.monotonic() + REST_FACTOR * (time.thread_time() - began)
        return self._last

    def in_flight(self, pids: Sequence[int]) -> frozenset[int]:
        """Return sockets that were sent through others and have something to read: it may be descriptors.

        Empty where the sockets of other programs cannot be told from those of the sandbox.
        """
        if self._diag is None or not self._all_own:
            return frozenset()
        with suppress(OSError):
            owned = _socket_inodes(pids)
            return frozenset(
                one.inode for one in self._unix() if one.inode and one.waiting and one.inode not in owned
            )
        return frozenset()

    def _held(self, one: _UnixSocket) -> int:
        # who sent it may have closed its end, and many small messages take up more than their bytes
        if one.is_listening:
            return one.waiting * self._buffer
        if not one.waiting:
            return 0
        return self._buffer * (MAX_DATAGRAMS if one.kind == SOCK_DGRAM else 1)

    def _unix(self) -> Iterator[_UnixSocket]:
        request = UNIX_REQUEST.pack(AF_UNIX, 0, 0, 0xFFFFFFFF, 0, SHOW_QUEUES, 0, 0)
        for body in self._ask(request):
            _, kind, state, _, inode, _, _ = UNIX_ANSWER.unpack_from(body)
            queues = _attribute(body, UNIX_ANSWER.size, UNIX_QUEUES)
            waiting = QUEUES.unpack_from(queues)[0] if len(queues) >= QUEUES.size else 0
            yield _UnixSocket(inode, kind, state == LISTENING, waiting)

    def _inet(self, family: int) -> Iterator[int]:
        request = INET_REQUEST.pack(family, IPPROTO_TCP, SHOW_MEMORY, 0, 0xFFFFFFFF)
        for body in self._ask(request):
            memory = _attribute(body, INET_ANSWER_BYTES, INET_MEMORY)
            if len(memory) >= MEMORY.size:
                received, _, sending, _, ahead, queued, *_ = MEMORY.unpack_from(memory)
                yield received + ahead + max(sending, queued)

    def _ask(self, request: bytes) -> Iterator[bytes]:
        header = HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, DUMP_REQUEST, 1, 0)
        self._diag.send(header + request)
        while True:
            data = self._diag.recv(1 << 17)
            while len(data) >= HEADER.size:
                size, kind, _, _, _ = HEADER.unpack_from(data)
                if kind in (NLMSG_DONE, NLMSG_ERROR) or size < HEADER.size:
                    return
                yield data[HEADER.size : size]
                data = data[(size + 3) & ~3 :]


def _attribute(body: bytes, start: int, wanted: int) -> bytes:
    while start + ATTRIBUTE.size <= len(body):
        size, kind = ATTRIBUTE.unpack_from(body, start)
        if kind == wanted:
            return body[start + ATTRIBUTE.size : start + size]
        start += max(ATTRIBUTE.size, (size + 3) & ~3)
    return b""


def _socket_inodes(pids: Sequence[int]) -> set[int]:
    found: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with suppress(OSError, ValueError):
                    target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
                    if target.startswith("socket:["):
                        found.add(int(target[8:-1]))
    return found


def _buffer_bytes() -> int:
    """Return the most bytes that a socket may send ahead, with their overhead: the filter keeps it so."""
    with suppress(OSError, ValueError), open("/proc/sys/net/core/wmem_default") as file:  # noqa: PTH123
        return int(file.read())
    return DEFAULT_BUFFER_BYTES
