"""A worker of `simulation.lives`: plans come on standard input, what is left of their lives goes out."""

from __future__ import annotations

import os
import sys

from simulation.lives import serve

if __name__ == "__main__":
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a life that prints does not disturb the answers
    serve(sys.stdin.buffer, answers)
