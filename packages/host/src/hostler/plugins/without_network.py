"""Execute a command without any network: `python without_network.py COMMAND ARGUMENTS...`.

Run by path with the host's interpreter and only the standard library. The command gets its own network
namespace, in which no address can be reached, not even this machine's: its loopback leads only to itself,
which the model door of a run needs. Without a command it only checks
whether that is possible here, and reports it by its exit status.
"""

from __future__ import annotations

import _socket
import ctypes
import fcntl
import os
import signal
import struct
import sys
from contextlib import suppress
from typing import Any

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
IMPOSSIBLE = 4
"""Exit status: this system offers this user no network namespace."""

NOT_EXECUTED = 127

_libc: Any = ctypes.CDLL(None, use_errno=True)


def leave_network() -> str | None:
    """Leave the host's network. Return the reason if that is not possible."""
    if sys.platform != "linux":
        return f"{sys.platform} has no network namespaces"
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(CLONE_NEWNET) == 0:
        start_loopback()
        return None
    if _libc.unshare(CLONE_NEWNET | CLONE_NEWUSER) != 0:
        return os.strerror(ctypes.get_errno())
    for path, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{path}", "w") as file:  # noqa: PTH123 - pathlib would double the start-up time
            file.write(text)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of user clears what the shim has set
    start_loopback()
    return None


def start_loopback() -> None:
    """Start the loopback of the new namespace. Where that is not allowed, nothing at all is reached."""
    request = struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING)
    with suppress(OSError):
        asking = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
        try:
            fcntl.ioctl(asking.fileno(), SIOCSIFFLAGS, request)
        finally:
            asking.close()


def main(command: list[str]) -> int:
    """Leave the network, then execute the command."""
    why = leave_network()
    if why is not None:
        sys.stderr.write(f"the network cannot be cut off: {why}\n")
        return IMPOSSIBLE
    if not command:
        return 0
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return NOT_EXECUTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
