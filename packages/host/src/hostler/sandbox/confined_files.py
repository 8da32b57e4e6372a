"""Executes a command that reaches only the files it is given.

Usage: `python -I -S confined_files.py ORDER COMMAND...`.

ORDER is JSON with the lists `read`, `write` and `devices`, as for confine.py. For programs of the host's own
that handle what strangers made and need the network, which no sandbox gives as a whole: files are held by
Landlock, and by nothing where the kernel has none. The command ends with its parent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
LEAST_LANDLOCK = 3
"""As capabilities.py has it."""


def main() -> None:
    """Hold this process, then become the command."""
    order, *command = sys.argv[1:]
    if sys.platform == "linux":
        sys.path.append(str(Path(__file__).parents[2]))
        from hostler.sandbox.confine import hold_files, landlock_version, prctl  # noqa: PLC0415  -S knows none

        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if landlock_version() >= LEAST_LANDLOCK:
            hold_files({**json.loads(order), "network": True})
    os.execvp(command[0], command)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main()
