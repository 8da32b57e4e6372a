"""Hunt mutants: `python -m simulation.mutants --help` (with `tests` on the path)."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from simulation.mutants.form import Mutant, read_mutants
from simulation.mutants.hunt import HEAD, Verdict, hunt
from simulation.story import plain, story_of


def main() -> int:
    """Hunt the mutants that are named, or all, and print a table."""
    known = read_mutants()
    parser = argparse.ArgumentParser(prog="python -m simulation.mutants", description="Hunt mutants.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants; all of them if none is named")
    parser.add_argument("--seeds", type=int, default=200, help="lives per mutant at most (200)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    parser.add_argument(
        "--shrink", type=int, default=0, metavar="N", help="cut found lives down, in N lives, and tell them"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="write the lives that were cut down there, as in put_back"
    )
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - known.keys()):
        parser.error(f"no such mutants: {', '.join(unknown)}")
    verdicts: list[Verdict] = []

    def one(name: str) -> None:
        verdict = hunt(known[name], range(1, options.seeds + 1), cut_down=options.shrink)
        verdicts.append(verdict)
        lines = [verdict.row()]
        if verdict.shrunk is not None:
            if options.keep is not None:
                verdict.keep(options.keep)
            lines += [f"    {line}" for line in plain(story_of(verdict.shrunk)).splitlines()]
        print("\n".join(lines), flush=True)

    print(HEAD, flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, options.names or known))
    missed: list[Mutant] = [verdict.mutant for verdict in verdicts if verdict.found is None]
    lives = sum(verdict.lives for verdict in verdicts)
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} mutants found, in {lives} lives")
    for missing in missed:
        print(f"not found: {missing.name}: {missing.defect}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
