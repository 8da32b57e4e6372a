"""What the filter of system calls decides, by running it as the kernel does, for each processor."""

from __future__ import annotations

import socket
import struct

import pytest

from hostler.sandbox.allowed_syscalls import ALLOWED
from hostler.sandbox.bpf import ALLOW, ERRNO, KILL, NOTIFY
from hostler.sandbox.refusals import out_of_reach
from hostler.sandbox.syscall_filter import FilterOptions, filter_program, traced_calls
from hostler.sandbox.syscalls import MACHINES, names, number

pytestmark = pytest.mark.gate("system-calls", "sandbox-reach")

LARGE = 1 << 28
OPTIONS = FilterOptions(traces=True, large_bytes=LARGE)
NUMBERS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PRIVATE, SHARED, WRITE = 0x22, 0x21, 3
EPERM, ENOMEM, EINVAL, ENOSYS, EOPNOTSUPP = 1, 12, 22, 38, 95


def decide(
    machine: str, call: str | int, *arguments: int, options: FilterOptions = OPTIONS, notify: bool = True
) -> int:
    """What the program returns for a call, step by step."""
    found = number(call, machine) if isinstance(call, str) else call
    assert found is not None
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=IIQ6Q", found, NUMBERS[machine], 0, *padded)
    code = filter_program(options, machine, notify=notify)
    held, at = 0, 0
    while True:
        operation, yes, no, value = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        match operation:
            case 0x20:
                (held,) = struct.unpack_from("=I", data, value)
            case 0x54:
                held &= value
            case 0x15:
                at += yes if held == value else no
            case 0x35:
                at += yes if held >= value else no
            case 0x06:
                return int(value)
            case other:
                raise AssertionError(f"operation {other:#x}")


on_each = pytest.mark.parametrize("machine", MACHINES)


@on_each
def test_calls_that_name_files_are_asked_about_where_somebody_listens(machine: str) -> None:
    for name, call in traced_calls(OPTIONS, machine).items():
        if name not in ("mmap", "mremap"):
            assert decide(machine, call) == NOTIFY, name
            assert decide(machine, call, notify=False) == ALLOW, name
    assert {"openat", "openat2", "unlinkat", "execve"} <= set(traced_calls(OPTIONS, machine))
    assert traced_calls(FilterOptions(), machine) == {}


@on_each
def test_connections_are_asked_about_only_where_the_network_is_its_own(machine: str) -> None:
    # what is traced goes on: without namespaces a connection has to stay refused
    own = FilterOptions(tcp=True, traces=True)
    assert traced_calls(own, machine)["connect"] == number("connect", machine)
    assert decide(machine, "connect", options=own) == NOTIFY
    assert decide(machine, "connect", options=own, notify=False) == ALLOW
    for options in (OPTIONS, FilterOptions(namespaces=False, traces=True)):
        assert "connect" not in traced_calls(options, machine)
    assert decide(machine, "connect", options=FilterOptions(namespaces=False), notify=False) == ERRNO | EPERM


@on_each
@pytest.mark.parametrize("size", [LARGE, LARGE + 1, (1 << 32), (1 << 40) + 5])
def test_much_memory_at_once_is_asked_about(machine: str, size: int) -> None:
    assert decide(machine, "mmap", 0, size, WRITE, PRIVATE) == NOTIFY
    assert decide(machine, "mremap", 0, 4096, size, 1) == NOTIFY
    assert decide(machine, "mmap", 0, size, 0, PRIVATE) == ALLOW  # only set aside
    assert decide(machine, "mmap", 0, size, WRITE, SHARED) == ALLOW


@on_each
def test_little_memory_is_not(machine: str) -> None:
    assert decide(machine, "mmap", 0, LARGE - 1, WRITE, PRIVATE) == ALLOW
    assert decide(machine, "mremap", 0, 4096, LARGE - 1, 1) == ALLOW


@on_each
def test_shared_memory_is_asked_about_where_no_control_group_counts_it(machine: str) -> None:
    counting = FilterOptions(traces=True, large_bytes=LARGE, counts_memory=True)
    for flags in (SHARED, 0x01, 0x03):
        assert decide(machine, "mmap", 0, 4096, WRITE, flags, options=counting) == NOTIFY
        assert decide(machine, "mmap", 0, 4096, 0, flags, options=counting) == NOTIFY
        assert decide(machine, "mmap", 0, 4096, WRITE, flags) == ALLOW
    assert decide(machine, "setsockopt", 3, 1, 7, options=counting) == ERRNO
    assert decide(machine, "setsockopt", 3, 1, 8, options=counting) == ALLOW
    assert decide(machine, "setsockopt", 3, 1, 7) == ALLOW
    assert decide(machine, "mmap", 0, 4096, WRITE, PRIVATE, options=counting) == ALLOW


@on_each
@pytest.mark.parametrize("notify", [True, False])
def test_what_no_look_could_count_is_refused(machine: str, notify: bool) -> None:
    huge, thread, files, unshare = 0x40000, 0x10000, 0x400, 2
    assert decide(machine, "mmap", 0, 1 << 21, WRITE, PRIVATE | huge, notify=notify) == ERRNO | ENOMEM
    assert decide(machine, "clone", 0x900 | thread, notify=notify) == ERRNO | EINVAL
    assert decide(machine, "clone", 0x900 | thread | files, notify=notify) == ALLOW
    assert decide(machine, "close_range", 3, 9, unshare, notify=notify) == ERRNO | EINVAL
    assert decide(machine, "close_range", 3, 9, 4, notify=notify) == ALLOW
    for name in ("setxattr", "lsetxattr", "fsetxattr"):
        assert decide(machine, name, notify=notify) == ERRNO | EOPNOTSUPP


@on_each
@pytest.mark.parametrize("notify", [True, False])
def test_pages_are_not_held_where_no_control_group_counts_them(machine: str, notify: bool) -> None:
    counting = FilterOptions(counts_memory=True)
    for name in ("splice", "vmsplice", "sendfile"):
        assert decide(machine, name, options=counting, notify=notify) == ERRNO | EINVAL
        assert decide(machine, name, notify=notify) == ALLOW
    resize, own = 1031, 8
    assert decide(machine, "fcntl", 3, resize, options=counting, notify=notify) == ERRNO | EPERM
    assert decide(machine, "fcntl", 3, own, options=counting, notify=notify) == ALLOW
    assert decide(machine, "fcntl", 3, resize, notify=notify) == ALLOW
    for value in (0, 1):
        assert decide(machine, "prctl", 41, value, notify=notify) == ERRNO | EPERM


@on_each
def test_what_the_machine_has_once_is_refused(machine: str) -> None:
    for name in ("io_setup", "io_submit", "io_getevents", "io_cancel"):
        assert decide(machine, name) == ERRNO | ENOSYS


@on_each
def test_refusals_are_said_by_who_listens_or_by_the_kernel(machine: str) -> None:
    assert decide(machine, "ptrace") == NOTIFY
    assert decide(machine, "ptrace", notify=False) == ERRNO | EPERM
    assert decide(machine, "socket", 2, 2, 0) == NOTIFY
    assert decide(machine, "socket", 2, 1, 6, options=FilterOptions(tcp=True)) == ALLOW
    assert decide(machine, "socket", 2, 3, 1, options=FilterOptions(tcp=True)) == NOTIFY
    assert decide(machine, "io_uring_setup") == ERRNO | ENOSYS
    assert decide(machine, "clone", 0x10000000) == NOTIFY
    assert decide(machine, "clone", 0x00010F00) == ALLOW
    # a process cannot hide its memory from the shim, and is told that it did
    assert decide(machine, "prctl", 4, 0) == ERRNO
    assert decide(machine, "prctl", 4, 1) == ALLOW
    assert decide(machine, "prctl", 38, 1) == ALLOW


@on_each
def test_calls_that_no_list_names_are_answered_as_by_a_kernel_that_lacks_them(machine: str) -> None:
    everything = {name: number(name, machine) for name in ALLOWED}
    allowed = {call for call in everything.values() if call is not None}
    decided = {call: decide(machine, call, notify=False) for call in range(2000)}
    assert {call for call in allowed if decided[call] != ALLOW} == {number("socketpair", machine)}
    open_with_arguments = {number(name, machine) for name in ("clone", "ioctl", "personality", "prctl")}
    open_with_arguments |= {
        number(name, machine) for name in ("prlimit64", "sched_setattr", "sched_setparam")
    }
    open_with_arguments |= {
        number(name, machine) for name in ("sched_setscheduler", "setpriority", "ioprio_set")
    }
    assert {call for call, action in decided.items() if action == ALLOW} <= allowed | open_with_arguments
    for call in {*range(2000), 0x3FFFFFFF} - set(names(machine)):
        assert decide(machine, call) == ERRNO | ENOSYS, call
    for name in ("file_setattr", "statmount", "lsm_set_self_attr", "cachestat", "setxattrat"):
        assert decide(machine, name) == ERRNO | ENOSYS, name


@on_each
def test_unix_sockets_are_for_sandboxes_that_see_none_of_others(machine: str) -> None:
    own = FilterOptions(unix_sockets=True)
    for kind in (1, 2, 5, 1 | 0o2000000):
        assert decide(machine, "socket", 1, kind, 0, options=own) == ALLOW
        assert decide(machine, "socketpair", 1, kind, 0, options=own) == ALLOW
        assert decide(machine, "socket", 1, kind, 0) == NOTIFY
    assert decide(machine, "socket", 2, 1, 0, options=own) == NOTIFY
    assert decide(machine, "socketpair", 1, 1, 0) == decide(machine, "socketpair", 1, 5, 0) == ALLOW
    assert decide(machine, "socketpair", 1, 2, 0) == NOTIFY  # sendto could turn it to another address
    assert decide(machine, "bind", options=FilterOptions(namespaces=False)) == NOTIFY


@on_each
def test_signals_by_way_of_a_file_are_refused_where_landlock_does_not_keep_them_inside(machine: str) -> None:
    old = FilterOptions(namespaces=False, signals_scoped=False)
    for call, command in (("fcntl", 8), ("fcntl", 15), ("ioctl", 0x8901), ("ioctl", 0x8902)):
        assert decide(machine, call, 0, command, options=old) == NOTIFY
        assert decide(machine, call, 0, command, options=FilterOptions(namespaces=False)) == ALLOW
    assert decide(machine, "fcntl", 0, 3, options=old) == ALLOW


def test_calls_of_another_processor_mode_end_the_process() -> None:
    code = filter_program(OPTIONS, "x86_64", notify=True)
    _, _, _, expected = struct.unpack_from("=HBBI", code, 8)
    assert expected == NUMBERS["x86_64"]
    assert struct.unpack_from("=HBBI", code, 16)[3] == KILL
    assert decide("x86_64", 0x40000000 + 2) == ERRNO | ENOSYS


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (("2", "192.0.2.1", 80), "192.0.2.1:80"),
        (("2", "127.0.0.2", 80), None),
        (("2", "0.0.0.0", 80), None),
        (("10", "2001:db8::1", 443), "[2001:db8::1]:443"),
        (("10", "::1", 80), None),
        (("10", "::ffff:127.0.0.1", 80), None),
        (("10", "::ffff:192.0.2.1", 80), "[::ffff:192.0.2.1]:80"),
    ],
)
def test_an_address_that_is_out_of_reach_is_named(address: tuple[str, str, int], place: str | None) -> None:
    family, host, port = int(address[0]), address[1], address[2]
    start = struct.pack("=H", family) + struct.pack(">H", port)
    raw = start + (b"" if family == 2 else bytes(4)) + socket.inet_pton(family, host)
    for padded in (raw, raw.ljust(28, b"\0")):
        found = out_of_reach(padded)
        assert (None if found is None else found.text.split()[2].rstrip(":")) == place
    for cut in range(len(raw)):
        assert out_of_reach(raw[:cut]) is None


def test_an_address_of_another_kind_is_not_named() -> None:
    assert out_of_reach(struct.pack("=H", 1) + b"/tmp/socket") is None
    assert out_of_reach(b"") is None
