"""What the timeline costs: the same writes with it and without it, in turns, on one database each.

    python -m bench.timeline [--seconds 2] [--postgres URL URL]

With two addresses of empty databases on one PostgreSQL server, two hosts write runs of one workspace at
once, with the timeline to the first database and without it to the second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from pathlib import Path
from unittest import mock

from bench.facts import DELTA, WORKSPACE, accept, measure, one_run
from bench.table import Row, middle, text_of

from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import runs, timeline
from hostler.storage.stores.journal import Deltas
from hostler_protocol.ids import new_id

BATCH = 20
AT_ONCE = 32
ENTRIES = [Deltas([DELTA] * BATCH)]


def without() -> contextlib.AbstractContextManager[object]:
    """Write no timeline in the block."""
    return mock.patch.multiple(timeline, add_journal=lambda *_: None, add_event=lambda *_: None)


async def _deltas(database: SqlDatabase, seconds: float) -> float:
    """Batches of deltas of AT_ONCE runs: CPU seconds a batch."""
    ids = [new_id() for _ in range(AT_ONCE)]
    for run_id in ids:
        await database.write(lambda tx, run_id=run_id: accept(tx, run_id, run_id))  # type: ignore[misc]
    done, until, before = 0, time.perf_counter() + seconds, time.process_time()

    async def worker(run_id: str) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await database.write(lambda tx: runs.append(tx, run_id, 1, ENTRIES), synced=False)
            done += 1

    await asyncio.gather(*(worker(run_id) for run_id in ids))
    return (time.process_time() - before) / done


async def _cpu(database: SqlDatabase, at_once: int, seconds: float) -> float:
    """CPU seconds of a run of 26 facts."""
    before = time.process_time()
    rate, _ = await measure(database, at_once, seconds)
    return (time.process_time() - before) / (rate * seconds)


async def _side(database: SqlDatabase, seconds: float, found: dict[str, list[float]]) -> None:
    found["one"].append(await _cpu(database, 1, seconds))
    found["many"].append(await _cpu(database, AT_ONCE, seconds))
    found["deltas"].append(await _deltas(database, seconds))


NAMES = {
    "one": "CPU of the facts of a run, one at a time",
    "many": f"CPU of the facts of a run, {AT_ONCE} at once",
    "deltas": f"CPU of a batch of {BATCH} deltas, {AT_ONCE} runs at once",
}


async def rounds(folder: Path, seconds: float, count: int) -> list[Row]:
    """Measure in turns, so that a noisy neighbour hurts both alike."""
    kept, left = open_database(folder / "kept.db"), open_database(folder / "left.db")
    with_it: dict[str, list[float]] = {name: [] for name in NAMES}
    bare: dict[str, list[float]] = {name: [] for name in NAMES}
    await one_run(kept)
    for _ in range(count):
        await _side(kept, seconds, with_it)
        with without():
            await _side(left, seconds, bare)
    await kept.close()
    await left.close()
    return [
        Row(
            words,
            1e6 * middle(with_it[name]),
            "us",
            middle([a / b for a, b in zip(with_it[name], bare[name], strict=True)]),
            f"the same without it ({1e6 * middle(bare[name]):,.0f} us)",
            "at most 1.2",
        )
        for name, words in NAMES.items()
    ]


async def two_hosts(urls: list[str], seconds: float, count: int) -> list[Row]:
    """Runs a second of two hosts that share a database and a workspace."""
    pairs = [(open_database(url), open_database(url)) for url in urls]
    found: list[list[float]] = [[], []]
    for _ in range(count):
        for index, pair in enumerate(pairs):
            with contextlib.nullcontext() if index == 0 else without():
                rates = await asyncio.gather(*(measure(one, AT_ONCE, seconds) for one in pair))
            found[index].append(sum(rate for rate, _ in rates))
    for pair in pairs:
        for one in pair:
            await one.close()
    ratio = middle([a / b for a, b in zip(*found, strict=True)])
    against = f"the same without it ({middle(found[1]):,.0f} runs/s)"
    return [
        Row(f"facts of runs, two hosts, workspace {WORKSPACE}", middle(found[0]), "runs/s", ratio, against)
    ]


def rows(quick: bool) -> list[Row]:
    """Measure on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(rounds(Path(folder), 0.3 if quick else 2.0, 1 if quick else 7))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.timeline",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--postgres", nargs=2, metavar="URL")
    options = parser.parse_args()
    if options.postgres:
        print(text_of(asyncio.run(two_hosts(options.postgres, options.seconds, options.rounds))))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(text_of(asyncio.run(rounds(Path(folder), options.seconds, options.rounds))))


if __name__ == "__main__":
    main()
