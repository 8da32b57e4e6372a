"""Measure everything side by side and write docs/performance.md.

python -m bench                     all parts, about ten minutes
python -m bench --only runs calls   some of them, printed and not written
python -m bench --quick             each part for a few seconds, printed and not written
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import (
    calls,
    dialects,
    durable,
    facts,
    histories,
    memory,
    sealed,
    sse,
    starting,
    timeline,
    whole_runs,
)
from bench.table import Part, page_of, text_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
PARTS = [
    Part("runs", "Whole runs", whole_runs.rows),
    Part("facts", "Facts", facts.rows),
    Part("timeline", "The timeline", timeline.rows),
    Part("calls", "Host calls", calls.rows),
    Part("durable", "Durable runs", durable.rows),
    Part("sse", "Event streams", sse.rows),
    Part("dialects", "Streams in dialects", dialects.rows),
    Part("starting", "Start-up", starting.rows),
    Part("memory", "Memory", memory.rows),
    Part("histories", "A long past", histories.rows),
    Part("sealed", "Encryption at rest", sealed.rows),
]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few seconds a part")
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], metavar="PART")
    options = parser.parse_args()
    found = []
    for part in PARTS:
        if options.only is None or part.name in options.only:
            print(part.title, flush=True)
            rows = part.measure(options.quick)
            print(text_of(rows), flush=True)
            found.append((part, rows))
    if not options.quick and options.only is None:
        PAGE.write_text(page_of(found), encoding="utf-8")
        print(f"written to {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
