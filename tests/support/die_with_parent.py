"""Processes that last as long as the tests that use them, however these end."""

from __future__ import annotations

import os
import signal
import sys

_DIE_WITH_PARENT = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None, use_errno=True).prctl(1, int(sys.argv[1]))\n"  # PR_SET_PDEATHSIG
    "if os.getppid() != int(sys.argv[2]): sys.exit(1)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)


def dying_with_us(how: signal.Signals) -> list[str]:
    """Begin a command that goes on as what follows, and is sent this signal when our thread ends."""
    return [sys.executable, "-c", _DIE_WITH_PARENT, str(int(how)), str(os.getpid())]
