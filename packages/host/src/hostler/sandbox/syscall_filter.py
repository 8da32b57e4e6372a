"""Which calls of the system a sandbox refuses, and which of those the host is told of.

The list is of what reaches beyond the sandbox, or widens it; what a program needs for its own work stays
allowed. Refusals that libraries run into by themselves, and get along without, are not told.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache

from hostler.sandbox.bpf import ALLOW, ENOSYS, EPERM, TELL, Case, Check, Rule, assemble, refuse
from hostler.sandbox.syscalls import MACHINES, number
from hostler.sandbox.traced_syscalls import MEMORY, PATHS

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
EAFNOSUPPORT = 97
SOCK_STREAM, TYPE_MASK = 1, 0xF
IPPROTO_TCP = 6
NEW_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""The flags of clone that make a namespace: mount, cgroup, uts, ipc, user, pid, net."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
"""Writing into a terminal as if somebody had typed it."""
PR_SET_DUMPABLE = 4
"""Hides a process from others, the shim among them: said yes to, and not done."""
PROT_WRITE, MAP_KIND, MAP_PRIVATE = 2, 0xF, 2
UNSIGNED_MAX = 0xFFFFFFFF

TOLD = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    *("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "syslog", "acct"),
    *("mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen"),
    *("fsmount", "fsconfig", "fspick", "mount_setattr", "unshare", "setns", "fanotify_init"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
    *("swapon", "swapoff", "quotactl", "quotactl_fd", "nfsservctl", "lookup_dcookie", "uselib"),
    *("open_by_handle_at", "name_to_handle_at", "iopl", "ioperm", "modify_ldt", "vhangup"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname"),
    *("shmget", "semget", "msgget", "mq_open", "move_pages", "migrate_pages", "memfd_secret"),
)
"""Refused whatever their arguments are."""
UNTOLD = {
    "clone3": ENOSYS,  # its flags lie in memory, where no filter can look; libraries then use clone
    "io_uring_setup": ENOSYS,  # would do what this filter refuses, behind its back
    "io_uring_enter": ENOSYS,
    "io_uring_register": ENOSYS,
    "memfd_create": ENOSYS,  # memory that no limit of a process counts
    "sched_setaffinity": EPERM,
    "process_mrelease": EPERM,
    "fchmodat2": ENOSYS,
    "setxattrat": ENOSYS,
    "removexattrat": ENOSYS,
}
OF_ITSELF = ("prlimit64", "sched_setattr", "sched_setparam", "sched_setscheduler")
"""Allowed where the first argument, a process, is 0: the caller's own."""
OF_A_KIND_OF_ITSELF = ("setpriority", "ioprio_set")
"""The same of the second argument, the first saying what it numbers."""

WITHOUT_NAMESPACES = ("connect", "bind", "listen", "inotify_add_watch")
"""Also refused where files, networks and processes of others are in sight (Landlock does not judge these)."""
SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
"""And these, where Landlock cannot hold signals within the sandbox."""
OWNERSHIP = (
    *("chmod", "fchmod", "fchmodat", "chown", "lchown", "fchown", "fchownat"),
    *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
    *("utime", "utimes", "futimesat"),
)
"""And these, where the sandbox runs as the user whose files are in sight."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a filter is for."""

    network: bool = False
    """TCP may be used: the sandbox has a network of its own, with nothing in it but the proxy."""
    namespaces: bool = True
    """The sandbox has namespaces of its own."""
    same_user: bool = False
    """It runs as the host's user, without namespaces."""
    signals_held: bool = True
    """It cannot send signals to what is outside."""
    asks: bool = False
    """The listener is asked about calls that name files, and lets them go on (traced_syscalls.py)."""
    large_bytes: int = UNSIGNED_MAX
    """And about memory of so much at once."""


def machine() -> str | None:
    """This processor, where there is a filter for it."""
    found = platform.machine()
    return found if found in MACHINES else None


@cache
def filter_program(wanted: Wanted, processor: str, *, tell: bool) -> bytes:
    """The program. With `tell` the kernel asks a listener about refused calls, who says no and tells."""
    refused = TELL if tell else refuse()
    rules = [_rule(name, processor, refused) for name in TOLD]
    rules += [_rule(name, processor, refuse(errno)) for name, errno in UNTOLD.items()]
    zero = (Case((Check(0, 0),), ALLOW),)
    rules += [_rule(name, processor, refused, zero) for name in OF_ITSELF]
    zero = (Case((Check(1, 0),), ALLOW),)
    rules += [_rule(name, processor, refused, zero) for name in OF_A_KIND_OF_ITSELF]
    flags = tuple(Case((Check(0, flag, flag),), refused) for flag in NEW_NAMESPACES)
    rules.append(_rule("clone", processor, ALLOW, flags))
    terminal = tuple(Case((Check(1, code),), refused) for code in (TIOCSTI, TIOCLINUX))
    rules.append(_rule("ioctl", processor, ALLOW, terminal))
    # 0: the usual personality; all ones: only asks which it is
    usual = tuple(Case((Check(0, value),), ALLOW) for value in (0, 0xFFFFFFFF))
    rules.append(_rule("personality", processor, refused, usual))
    rules.append(_rule("socket", processor, refused, _sockets(wanted)))
    hidden = (Case((Check(0, PR_SET_DUMPABLE), Check(1, 0)), refuse(0)),)
    rules.append(_rule("prctl", processor, ALLOW, hidden))
    if not wanted.namespaces:
        rules += _in_sight(wanted, processor, refused)
    if wanted.asks and tell:
        rules += _asked(wanted, processor)
    return assemble(processor, [rule for rule in rules if rule is not None])


def _sockets(wanted: Wanted) -> tuple[Case, ...]:
    # libraries ask netlink for the machine's addresses, and get along without an answer
    cases = [Case((Check(0, AF_NETLINK),), refuse(EAFNOSUPPORT))]
    if wanted.network:
        for family in (AF_INET, AF_INET6):
            for protocol in (0, IPPROTO_TCP):
                checks = (Check(0, family), Check(1, SOCK_STREAM, TYPE_MASK), Check(2, protocol))
                cases.append(Case(checks, ALLOW))
    return tuple(cases)


def _in_sight(wanted: Wanted, processor: str, refused: int) -> list[Rule | None]:
    stream = (Case((Check(0, AF_UNIX), Check(1, SOCK_STREAM, TYPE_MASK)), ALLOW),)
    # a pair of another type could be turned to an address afterwards
    rules = [_rule("socketpair", processor, refused, stream)]
    rules += [_rule(name, processor, refused) for name in WITHOUT_NAMESPACES]
    if not wanted.signals_held:
        rules += [_rule(name, processor, refused) for name in SIGNALS]
    if wanted.same_user:
        rules += [_rule(name, processor, refused) for name in OWNERSHIP]
        open_file = (Case((Check(1, 0), Check(1, 0, high=True)), ALLOW),)
        rules.append(_rule("utimensat", processor, refused, open_file))
    return rules


def _asked(wanted: Wanted, processor: str) -> list[Rule | None]:
    rules = [_rule(name, processor, TELL) for name in PATHS]
    for name, argument in zip(MEMORY, (1, 2), strict=True):
        sizes = (
            Check(argument, 1, high=True, least=True),
            Check(argument, min(wanted.large_bytes, UNSIGNED_MAX), least=True),
        )
        kinds = (
            () if name == "mremap" else (Check(2, PROT_WRITE, PROT_WRITE), Check(3, MAP_PRIVATE, MAP_KIND))
        )
        rules.append(_rule(name, processor, ALLOW, tuple(Case((*kinds, size), TELL) for size in sizes)))
    return rules


def asked_calls(processor: str) -> dict[str, int]:
    """The numbers of the calls that are asked about."""
    numbers = {name: number(name, processor) for name in (*PATHS, *MEMORY)}
    return {name: call for name, call in numbers.items() if call is not None}


def _rule(name: str, processor: str, otherwise: int, cases: tuple[Case, ...] = ()) -> Rule | None:
    found = number(name, processor)
    return None if found is None else Rule(found, otherwise, cases)
