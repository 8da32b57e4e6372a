"""A worker of `simulation.lives`: plans come on standard input, what is left of their lives goes out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from simulation.folders import locked
from simulation.lives import serve

if __name__ == "__main__":
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a life that prints does not disturb the answers
    own = Path(sys.argv[1])
    with locked(own.parent):
        serve(sys.stdin.buffer, answers, own)
