"""What enforces each limit of a sandbox on this machine: exactly, or by a look now and then. For people."""

from __future__ import annotations

from typing import NamedTuple

from hostler.sandbox.capabilities import SandboxCapabilities
from hostler.sandbox.port import Mechanism


class LimitReport(NamedTuple):
    """How one limit is enforced. `is_exact`: it cannot be exceeded, not even between two looks."""

    limit: str
    is_exact: bool
    text: str


def limit_reports(
    capabilities: SandboxCapabilities, mechanism: Mechanism, no_quota: str | None
) -> list[LimitReport]:
    """Return the reports for sandboxes of this mechanism.

    `no_quota`: why folders of the data directory get no project quota; None if they do.
    """
    groups = capabilities.groups
    namespaces = mechanism == "bubblewrap"
    memory, pids, cpu = (groups.version(name) for name in ("memory", "pids", "cpu"))
    own_user = capabilities.has_own_users(mechanism)
    reports = [
        LimitReport(
            "memory", True, f"exact, by control groups (version {memory}), with all that the kernel holds"
        )
        if memory
        else LimitReport("memory", False, f"by looks: {_LOOKS_AT_MEMORY}{_unseen_sockets(mechanism)}"),
        _processes(pids, own_user=own_user or namespaces),
        LimitReport("processor time", True, f"shared out by control groups (version {cpu}); `cpus` is exact")
        if cpu
        else LimitReport(
            "processor time",
            False,
            "by a lower priority alone (nice), which many processes outweigh; `cpus` limits the number of "
            "processors",
        ),
        _disk(no_quota if own_user else "only a host that is root sets them"),
        LimitReport(
            "temporary files", True, "exact, by the size of the file system in memory, which counts as memory"
        )
        if namespaces
        else LimitReport("temporary files", False, "a folder of the workspace: counts as disk"),
        LimitReport("open files", True, "exact, per process, by the kernel"),
    ]
    if groups.groups is None or groups.why:
        reports.append(LimitReport("control groups", False, f"{groups.why}: {_ADVICE}"))
    return reports


_LOOKS_AT_MEMORY = (
    "what processes map, shared memory by what was asked for, files in memory, page tables, pipes, and what "
    "waits in sockets, 5 to 30 times a second; other memory of the kernel is not counted"
)
_LOOKS_AT_DISK = (
    "what is allocated to files of the folders, and to files without a name that processes keep open or "
    "mapped, 5 to 200 times a second and before a file is created"
)
_ADVICE = (
    "for exact limits run the host as a service with `Delegate=yes`, with `systemd-run --user --scope -p "
    "Delegate=yes`, or as root"
)


def _disk(no_quota: str | None) -> LimitReport:
    if no_quota is None:
        text = "exact (project quota), but for MCP servers whose entries name folders to write: by looks"
        return LimitReport("disk", True, text)
    return LimitReport("disk", False, f"by looks: {_LOOKS_AT_DISK}; no project quota: {no_quota}")


def _unseen_sockets(mechanism: Mechanism) -> str:
    return "" if mechanism == "bubblewrap" else "; sockets that were sent through others are not counted"


def _processes(version: int | None, *, own_user: bool) -> LimitReport:
    if version:
        return LimitReport("processes", True, f"exact, by control groups (version {version})")
    if own_user:
        return LimitReport("processes", True, "exact, by the kernel's limit for the user of the sandbox")
    text = "by the kernel's limit for this user, of whom other processes count as well, and by looks"
    return LimitReport("processes", False, text)
