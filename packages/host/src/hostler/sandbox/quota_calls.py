"""System calls of project quotas: read and set the project of a file, and the limits of a project.

A project is a number that a file system keeps with each file, and counts by. The shim uses this, too: only
the standard library.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from typing import Any, NamedTuple

GET_ATTRIBUTES, SET_ATTRIBUTES = 0x801C581F, 0x401C5820
"""FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR, of a `struct fsxattr`."""
SET_FLAGS = (0x40086602, 0x40046602)
"""FS_IOC_SETFLAGS, and how 32-bit programs call it: can take INHERITS from a folder."""
INHERITS = 0x200
"""FS_XFLAG_PROJINHERIT: what is made in a folder gets its project."""
QUOTACTL_FD = 443
"""The same number on every processor; since Linux 5.14."""
OF_PROJECTS = 2
GET_QUOTA, SET_QUOTA, GET_STATE = 0x800007, 0x800008, 0x5805
LIMITS = 5
"""QIF_BLIMITS and QIF_ILIMITS: both limits are set, usage and times stay."""
ENFORCED = 0x20
"""FS_QUOTA_PDQ_ENFD: limits of projects hold, and are not only counted."""
BLOCK_BYTES = 1024
"""Unit of a limit in bytes."""
ENOENT, ENOSYS = 2, 38
_ATTRIBUTES = struct.Struct("=5I8x")
_QUOTA = struct.Struct("=8QI4x")
_STATE_BYTES, _STATE_FLAGS = 256, struct.Struct("=xxH")
_libc: Any = ctypes.CDLL(None, use_errno=True)


class Usage(NamedTuple):
    """What a project has and may have; a limit of 0 is none."""

    size: int
    files: int
    most_bytes: int = 0
    most_files: int = 0


def project_of(fd: int) -> tuple[int, bool]:
    """Return the project of an open file, and whether what is made in it inherits that. Raises OSError."""
    flags, _, _, project, _ = _attributes(fd)
    return project, bool(flags & INHERITS)


def set_project(fd: int, project: int, *, inherits: bool) -> None:
    """Put an open file, or a folder itself, into a project. Raises OSError."""
    flags, extent, extents, _, copied = _attributes(fd)
    flags = flags | INHERITS if inherits else flags & ~INHERITS
    fcntl.ioctl(fd, SET_ATTRIBUTES, _ATTRIBUTES.pack(flags, extent, extents, project, copied))


def read_state(fd: int, device: str) -> bool:
    """Return whether the file system of a folder enforces project quotas. Raises OSError.

    `device`: see `usage_of`.
    """
    state = ctypes.create_string_buffer(_STATE_BYTES)
    state[0] = b"\x01"  # FS_QSTAT_VERSION
    _quotactl(fd, device, GET_STATE, 0, state)
    return bool(_STATE_FLAGS.unpack_from(state.raw)[0] & ENFORCED)


def usage_of(fd: int, device: str, project: int) -> Usage:
    """Return the usage of a project in the file system of a folder. Raises OSError.

    `device` is that of the file system, for a kernel that cannot be asked by a descriptor; else empty.
    """
    found = ctypes.create_string_buffer(_QUOTA.size)
    try:
        _quotactl(fd, device, GET_QUOTA, project, found)
    except OSError as error:
        if error.errno == ENOENT:  # it has nothing
            return Usage(0, 0)
        raise
    most_blocks, _, size, most_files, _, files, _, _, _ = _QUOTA.unpack(found.raw)
    return Usage(size, files, most_blocks * BLOCK_BYTES, most_files)


def set_limits(fd: int, device: str, project: int, most_bytes: int, most_files: int) -> None:
    """Set the limits of a project in the file system of a folder; 0 for none. Raises OSError."""
    blocks = -(-most_bytes // BLOCK_BYTES)
    quota = _QUOTA.pack(blocks, 0, 0, most_files, 0, 0, 0, 0, LIMITS)
    _quotactl(fd, device, SET_QUOTA, project, ctypes.create_string_buffer(quota, _QUOTA.size))


def _attributes(fd: int) -> tuple[int, int, int, int, int]:
    found = _ATTRIBUTES.unpack(fcntl.ioctl(fd, GET_ATTRIBUTES, bytes(_ATTRIBUTES.size)))
    return found[0], found[1], found[2], found[3], found[4]


def _quotactl(fd: int, device: str, command: int, project: int, buffer: Any) -> None:
    what = (command << 8) | OF_PROJECTS
    if device:
        failed = _libc.quotactl(ctypes.c_uint(what), os.fsencode(device), ctypes.c_int(project), buffer)
    else:
        number = ctypes.c_long(QUOTACTL_FD)
        failed = _libc.syscall(number, fd, ctypes.c_uint(what), ctypes.c_uint(project), buffer)
    if failed:
        error = ctypes.get_errno()
        raise OSError(error, f"quotactl: {os.strerror(error)}")
