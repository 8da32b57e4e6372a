"""The process that plugins of tests are forked from outlives the hosts that ask it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from support import ready_plugins
from support.forking import CAN_FORK


@pytest.mark.skipif(not CAN_FORK, reason="plugins are new interpreters here")
def test_hosts_that_are_gone_before_they_are_answered_end_nothing_for_others() -> None:
    address = ready_plugins._own_source()
    with Path(os.devnull).open("r+b") as nothing:
        for _ in range(20):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as host:
                host.connect(f"\0{address}")
                socket.send_fds(host, [b"{}"], [*[nothing.fileno()] * 3, theirs.fileno()])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                descriptors = [*[nothing.fileno()] * 3, theirs.fileno()]
                shim = ready_plugins.Connection(address).start(descriptors)
            assert shim.poll() is None
        assert shim.wait(100) is not None
