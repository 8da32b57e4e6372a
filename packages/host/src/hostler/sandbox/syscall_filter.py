"""The filter of system calls of a sandbox, and which refusals are reported to the host.

Allowed is what a program needs for its own work (allowed_syscalls.py). Refused and reported is what reaches
beyond the sandbox or widens it. Refusals that libraries cause in normal work, and can deal with, are not
reported. All other calls, those of later kernels among them, are answered as by a kernel that lacks them:
libraries then fall back to older ones.
"""

from __future__ import annotations

import platform
from functools import cache

from hostler.domain.record import Record
from hostler.sandbox.allowed_syscalls import ALLOWED
from hostler.sandbox.bpf import ALLOW, ENOSYS, EPERM, NOTIFY, Case, Check, Rule, assemble, refuse
from hostler.sandbox.quota_calls import SET_ATTRIBUTES, SET_FLAGS
from hostler.sandbox.syscalls import MACHINES, number
from hostler.sandbox.traced_syscalls import CONNECT, MEMORY_CALLS, PATH_CALLS

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
EAFNOSUPPORT = 97
SOCK_STREAM, SOCK_SEQPACKET, TYPE_MASK = 1, 5, 0xF
IPPROTO_TCP = 6
SOL_SOCKET, SO_SNDBUF = 1, 7
NEW_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""The flags of clone that create a namespace: mount, cgroup, uts, ipc, user, pid, net."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
"""Insert input into a terminal."""
PR_SET_DUMPABLE = 4
"""Would hide a process from others, including the shim: answered with success, but not done."""
PR_SET_THP_DISABLE = 41
F_SETPIPE_SZ = 1031
PROT_WRITE, MAP_KIND, MAP_PRIVATE = 2, 0xF, 2
MAP_SHARED, MAP_SHARED_VALIDATE, MAP_HUGETLB = 1, 3, 0x40000
CLONE_FILES, CLONE_THREAD, CLOSE_RANGE_UNSHARE = 0x400, 0x10000, 2
ENOMEM, EINVAL, EOPNOTSUPP = 12, 22, 95
UNSIGNED_MAX = 0xFFFFFFFF

REPORTED = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    *("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "syslog", "acct"),
    *("mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen"),
    *("fsmount", "fsconfig", "fspick", "mount_setattr", "unshare", "setns", "fanotify_init"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
    *("swapon", "swapoff", "quotactl", "quotactl_fd", "nfsservctl", "lookup_dcookie", "uselib"),
    *("open_by_handle_at", "name_to_handle_at", "iopl", "ioperm", "modify_ldt", "vhangup"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname"),
    # those of the machine are shared by all programs of a user where the sandbox has no namespaces
    *("shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semtimedop", "semctl"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
    *("move_pages", "migrate_pages", "memfd_secret"),
)
"""Refused with any arguments, and reported."""
UNREPORTED = {
    "clone3": ENOSYS,  # its flags are in memory, which a filter cannot read; libraries fall back to clone
    "io_uring_setup": ENOSYS,  # could do what this filter refuses
    "io_uring_enter": ENOSYS,
    "io_uring_register": ENOSYS,
    "memfd_create": ENOSYS,  # memory that no per-process limit counts
    "sched_setaffinity": EPERM,
    "process_mrelease": EPERM,
    "fchmodat2": ENOSYS,
    # attributes may take up disk that no size of a file tells
    "setxattr": EOPNOTSUPP,
    "lsetxattr": EOPNOTSUPP,
    "fsetxattr": EOPNOTSUPP,
    "setxattrat": ENOSYS,
    "removexattrat": ENOSYS,
}
HOLDING_CALLS = ("splice", "vmsplice", "sendfile")
"""Put pages into pipes and sockets as they are: a byte there keeps a page of up to two megabytes, even of a
file that is empty by then. Where no control group counts that they are answered as for files that do not
support it, and programs copy."""
OWN_PROCESS_FIRST = ("prlimit64", "sched_setattr", "sched_setparam", "sched_setscheduler")
"""Allowed where the first argument, a process id, is 0: the caller itself."""
OWN_PROCESS_SECOND = ("setpriority", "ioprio_set")
"""Allowed where the second argument, an id of the kind the first one selects, is 0: the caller itself."""

WITHOUT_NAMESPACES = ("connect", "bind", "listen", "inotify_add_watch")
"""Also refused where foreign files, networks and processes are visible; Landlock does not cover these."""
F_SETOWN, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP = 8, 15, 0x8901, 0x8902
"""Have the kernel send signals to another process when something happens to a file."""
SIGNAL_CALLS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
"""Also refused where Landlock cannot keep signals inside the sandbox."""
OWNERSHIP_CALLS = (
    *("chmod", "fchmod", "fchmodat", "chown", "lchown", "fchown", "fchownat"),
    *("removexattr", "lremovexattr", "fremovexattr"),
    *("utime", "utimes", "futimesat"),
)
"""Also refused where the sandbox runs as the owner of visible files."""


class FilterOptions(Record):
    """Properties of a sandbox that its filter depends on."""

    tcp: bool = False
    """TCP is allowed: the sandbox has a private network, with its own processes and perhaps the proxy."""
    unix_sockets: bool = False
    """Unix sockets are allowed: the sandbox has a private network, and sees no socket of another program."""
    namespaces: bool = True
    """The sandbox has its own namespaces."""
    same_user: bool = False
    """It runs as the host's user, without namespaces."""
    signals_scoped: bool = True
    """It cannot send signals to processes outside."""
    traces: bool = False
    """Calls that name files are reported and then continue (traced_syscalls.py)."""
    large_bytes: int = UNSIGNED_MAX
    """Requests for at least this much memory are reported as well."""
    counts_memory: bool = False
    """No control group counts the memory: shared mappings are reported as well, buffers of sockets and pipes
    keep their size, and nothing is put into them as it is (HOLDING_CALLS)."""


def machine() -> str | None:
    """Return this processor, or None if there is no filter for it."""
    found = platform.machine()
    return found if found in MACHINES else None


@cache
def filter_program(options: FilterOptions, processor: str, *, notify: bool) -> bytes:
    """Return the filter program. With `notify` refused calls are decided and reported by the listener."""
    refused = NOTIFY if notify else refuse()
    rules = _usual_rules(options, processor, refused)
    rules += _memory_rules(options, processor, traces=options.traces and notify)
    if not options.unix_sockets:
        # a pair of datagram sockets could send to any address
        kinds = (SOCK_STREAM, SOCK_SEQPACKET)
        pairs = tuple(Case((Check(0, AF_UNIX), Check(1, kind, TYPE_MASK)), ALLOW) for kind in kinds)
        rules.append(_rule("socketpair", processor, refused, pairs))
    if not options.namespaces:
        rules += _without_namespaces(options, processor, refused)
    if options.traces and notify:
        rules += [_rule(name, processor, NOTIFY) for name in PATH_CALLS]
        if options.tcp:
            rules.append(_rule(CONNECT, processor, NOTIFY))
    allowed = [found for name in ALLOWED if (found := number(name, processor)) is not None]
    return assemble(processor, [rule for rule in rules if rule is not None], allowed)


def _usual_rules(options: FilterOptions, processor: str, refused: int) -> list[Rule | None]:
    """Return the rules of every sandbox."""
    rules = [_rule(name, processor, refused) for name in REPORTED]
    rules += [_rule(name, processor, refuse(errno)) for name, errno in UNREPORTED.items()]
    zero = (Case((Check(0, 0),), ALLOW),)
    rules += [_rule(name, processor, refused, zero) for name in OWN_PROCESS_FIRST]
    zero = (Case((Check(1, 0),), ALLOW),)
    rules += [_rule(name, processor, refused, zero) for name in OWN_PROCESS_SECOND]
    flags = tuple(Case((Check(0, flag, flag),), refused) for flag in NEW_NAMESPACES)
    # a thread with descriptors of its own, which are not looked at
    alone = Case((Check(0, CLONE_THREAD, CLONE_THREAD | CLONE_FILES),), refuse(EINVAL))
    rules.append(_rule("clone", processor, ALLOW, (*flags, alone)))
    rules += _counted_buffers(processor) if options.counts_memory else []
    unshared = (Case((Check(2, CLOSE_RANGE_UNSHARE, CLOSE_RANGE_UNSHARE),), refuse(EINVAL)),)
    rules.append(_rule("close_range", processor, ALLOW, unshared))
    codes = (TIOCSTI, TIOCLINUX, *(() if options.signals_scoped else (FIOSETOWN, SIOCSPGRP)))
    requests = [Case((Check(1, code),), refused) for code in codes]
    # as on a file system without them: an owner could take a file out of its project, and so out of a quota
    requests += [Case((Check(1, code),), refuse(EOPNOTSUPP)) for code in (SET_ATTRIBUTES, *SET_FLAGS)]
    rules.append(_rule("ioctl", processor, ALLOW, tuple(requests)))
    # 0: the default personality; all ones: a query
    usual = tuple(Case((Check(0, value),), ALLOW) for value in (0, 0xFFFFFFFF))
    rules.append(_rule("personality", processor, refused, usual))
    rules.append(_rule("socket", processor, refused, _sockets(options)))
    hidden = Case((Check(0, PR_SET_DUMPABLE), Check(1, 0)), refuse(0))
    rules.append(_rule("prctl", processor, ALLOW, (hidden, Case((Check(0, PR_SET_THP_DISABLE),), refuse()))))
    files: tuple[int, ...] = (F_SETPIPE_SZ,) if options.counts_memory else ()
    files += () if options.namespaces or options.signals_scoped else (F_SETOWN, F_SETOWN_EX)
    cases = tuple(Case((Check(1, one),), refuse() if one == F_SETPIPE_SZ else refused) for one in files)
    rules.append(_rule("fcntl", processor, ALLOW, cases))
    return rules


def _counted_buffers(processor: str) -> list[Rule | None]:
    """Return the rules for what sockets and pipes hold, where it is counted by their number."""
    # a larger buffer is promised and not made
    larger = (Case((Check(1, SOL_SOCKET), Check(2, SO_SNDBUF)), refuse(0)),)
    held = [_rule(name, processor, refuse(EINVAL)) for name in HOLDING_CALLS]
    return [_rule("setsockopt", processor, ALLOW, larger), *held]


def _sockets(options: FilterOptions) -> tuple[Case, ...]:
    # libraries ask netlink for the machine's addresses, and can do without an answer
    cases = [Case((Check(0, AF_NETLINK),), refuse(EAFNOSUPPORT))]
    if options.unix_sockets:
        cases.append(Case((Check(0, AF_UNIX),), ALLOW))
    if options.tcp:
        for family in (AF_INET, AF_INET6):
            for protocol in (0, IPPROTO_TCP):
                checks = (Check(0, family), Check(1, SOCK_STREAM, TYPE_MASK), Check(2, protocol))
                cases.append(Case(checks, ALLOW))
    return tuple(cases)


def _without_namespaces(options: FilterOptions, processor: str, refused: int) -> list[Rule | None]:
    rules = [_rule(name, processor, refused) for name in WITHOUT_NAMESPACES]
    if not options.signals_scoped:
        rules += [_rule(name, processor, refused) for name in SIGNAL_CALLS]
    if options.same_user:
        rules += [_rule(name, processor, refused) for name in OWNERSHIP_CALLS]
        open_file = (Case((Check(1, 0), Check(1, 0, high=True)), ALLOW),)
        rules.append(_rule("utimensat", processor, refused, open_file))
    return rules


def _memory_rules(options: FilterOptions, processor: str, *, traces: bool) -> list[Rule | None]:
    # pages of the machine's reserve, which are for the programs that it was made for
    huge = (Case((Check(3, MAP_HUGETLB, MAP_HUGETLB),), refuse(ENOMEM)),)
    if not traces:
        return [_rule("mmap", processor, ALLOW, huge)]
    kinds = (MAP_SHARED, MAP_SHARED_VALIDATE) if options.counts_memory else ()
    shared = tuple(Case((Check(3, kind, MAP_KIND),), NOTIFY) for kind in kinds)
    private = (Check(2, PROT_WRITE, PROT_WRITE), Check(3, MAP_PRIVATE, MAP_KIND))
    large = tuple(Case((*private, size), NOTIFY) for size in _large(1, options))
    remapped = tuple(Case((size,), NOTIFY) for size in _large(2, options))
    return [
        _rule("mmap", processor, ALLOW, (*huge, *shared, *large)),
        _rule("mremap", processor, ALLOW, remapped),
    ]


def _large(argument: int, options: FilterOptions) -> tuple[Check, Check]:
    """Return the checks for a size that is reported, of which one has to hold."""
    return (
        Check(argument, 1, high=True, least=True),
        Check(argument, min(options.large_bytes, UNSIGNED_MAX), least=True),
    )


def traced_calls(options: FilterOptions, processor: str) -> dict[str, int]:
    """Return the numbers of the traced calls by name: those that the shim lets continue."""
    if not options.traces:
        return {}
    traced = (*PATH_CALLS, *MEMORY_CALLS, *((CONNECT,) if options.tcp else ()))
    numbers = {name: number(name, processor) for name in traced}
    return {name: call for name, call in numbers.items() if call is not None}


def _rule(name: str, processor: str, otherwise: int, cases: tuple[Case, ...] = ()) -> Rule | None:
    found = number(name, processor)
    return None if found is None else Rule(found, otherwise, cases)
