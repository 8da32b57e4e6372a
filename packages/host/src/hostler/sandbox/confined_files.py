"""Execute a command that can reach only the given files.

Usage: `python -I -S confined_files.py SPEC COMMAND...`.

SPEC is JSON with the lists `read`, `write` and `devices`, as in confine.py. For programs of the host that
process untrusted input and need full network access, which no sandbox gives. Landlock restricts the files; a
kernel without it restricts nothing. The command is killed when its parent ends, and has a lower priority.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
MIN_LANDLOCK = 3
"""The same as in capabilities.py."""
NICE = 10
"""What is installed must not slow down what runs: a tenth of the weight of others."""


def main() -> None:
    """Restrict this process, then execute the command."""
    order, *command = sys.argv[1:]
    os.nice(NICE)
    if sys.platform == "linux":
        sys.path.append(str(Path(__file__).parents[2]))
        from hostler.sandbox.confine import landlock_version, prctl, restrict_files  # noqa: PLC0415

        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if landlock_version() >= MIN_LANDLOCK:
            restrict_files({**json.loads(order), "network": True})
    os.execvp(command[0], command)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main()
