"""The memory that processes occupy, where it has to be added up."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import pytest

from hostler.sandbox.memory_looks import distinct_memories

pytestmark = [
    pytest.mark.gate("sandbox-memory"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
CLONE_VM = 0x100
STACK_BYTES = 64 << 10


def sharing() -> tuple[int, object]:
    """A process with the memory of this one, and what it needs of that."""
    libc = ctypes.CDLL(None)
    stack = ctypes.create_string_buffer(STACK_BYTES)
    top = ctypes.c_void_p((ctypes.addressof(stack) + STACK_BYTES) & ~15)
    made = libc.clone(ctypes.cast(libc.sleep, ctypes.c_void_p), top, CLONE_VM | signal.SIGCHLD, 600)
    assert made > 0
    return made, stack


def forked() -> int:
    """A process with a copy of this one's memory."""
    made = os.fork()
    if made == 0:
        signal.pause()
    return made


def test_a_memory_counts_once() -> None:
    same, _stack = sharing()
    other, also = forked(), forked()
    try:
        own = os.getpid()
        assert distinct_memories([own, same]) == [own]
        assert distinct_memories([same, own]) == [same]
        assert sorted(distinct_memories([other, same, also, own])) == sorted([other, same, also])
        inside = {1: own, 2: same, 3: other}
        assert sorted(distinct_memories([1, 2, 3, 4], inside)) == [1, 3, 4]
    finally:
        for pid in (same, other, also):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_what_is_gone_is_another_one() -> None:
    gone = forked()
    os.kill(gone, signal.SIGKILL)
    os.waitpid(gone, 0)
    assert sorted(distinct_memories([os.getpid(), gone])) == sorted([os.getpid(), gone])
