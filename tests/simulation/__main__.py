"""Live lives: `python -m simulation FIRST LAST [-v]` (with `tests` on the path)."""

from __future__ import annotations

import sys
import time

from simulation.catalog import plan_of
from simulation.lives import live_all


def main() -> None:
    """Live the lives of some seeds."""
    first, last = int(sys.argv[1]), int(sys.argv[2])
    began = time.perf_counter()
    bad = 0
    for ended in live_all(plan_of(str(seed)) for seed in range(first, last + 1)):
        seed = ended.plan.seed
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
