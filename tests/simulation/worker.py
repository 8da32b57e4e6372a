"""The workers of `simulation.lives`: plans come in through pipes, what is left of their lives goes out.

Arguments: the numbers of a worker's ends of its two pipes, for each worker, then the folder of all of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from simulation.folders import locked
from simulation.lives import serve


def _opened(pair: str) -> tuple[BinaryIO, BinaryIO]:
    requests, answers = map(int, pair.split(":"))
    return os.fdopen(requests, "rb"), os.fdopen(answers, "wb")


if __name__ == "__main__":
    *pairs, own = sys.argv[1:]
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a life that prints does not disturb what is reported
    with locked(Path(own).parent):
        serve([_opened(pair) for pair in pairs], Path(own))
