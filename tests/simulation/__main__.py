"""Live lives: `python -m simulation FIRST LAST` (with PYTHONHASHSEED=0 and `tests` on the path)."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
import time
from pathlib import Path

from hostler.storage.sql.sqlite import SqliteDriver
from simulation.catalog import ATTEND, HANDLERS, JUDGES, plan_of
from simulation.life import Ended, live
from simulation.plan import Plan

LIFE_SECONDS = 60


def in_child(plan: Plan, template: Path) -> Ended:
    """Live a life in a forked process: each begins with the same interpreter."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(LIFE_SECONDS)
        status = 1
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(live(plan, template, HANDLERS, ATTEND, JUDGES), pipe)
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status or not data:
        return Ended(plan, [f"the life did not end by itself: status {status}"], "", 0.0, 0)
    ended: Ended = pickle.loads(data)
    return ended


def main() -> None:
    """Live the lives of some seeds."""
    first, last = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "template.db"
        SqliteDriver(template).close()
        began = time.perf_counter()
        bad = 0
        for seed in range(first, last + 1):
            ended = in_child(plan_of(str(seed)), template)
            if ended.findings:
                bad += 1
                print(f"seed {seed}: {len(ended.findings)} findings after {ended.seconds:.1f} s")
                for finding in ended.findings[:6]:
                    print("   ", finding[:300])
            if "-v" in sys.argv:
                print(seed, ended.digest, f"{ended.seconds:.1f} s", ended.callbacks, len(ended.log))
        count = last - first + 1
        print(f"{count} lives, {bad} with findings, {(time.perf_counter() - began) / count:.3f} s each")


if __name__ == "__main__":
    main()
