"""Live lives, tell one, cut one down: `python -m simulation --help` (with `tests` on the path)."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from simulation import sweep as sweeps
from simulation.catalog import plan_of
from simulation.findings import kind_of
from simulation.kept import keep, next_seed, read_plan, set_next_seed
from simulation.life import Ended
from simulation.lives import Workers
from simulation.occurrences import GROUPS, few
from simulation.plan import Plan
from simulation.shrink import MAX_LIVES, Minimiser, as_test
from simulation.story import plain, story_of
from simulation.tally import Tally
from simulation.workloads.strikes import KINDS

PIPED_LINE_SECONDS = 60.0
console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def _seeds(text: str) -> range:
    """Read `A-B`, or one seed."""
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash)):
        raise argparse.ArgumentTypeError(f"{text}: write two numbers, like 1-300, or one")
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text}: the first seed is greater than the last")
    return seeds


def run(options: argparse.Namespace) -> int:
    """Live the lives of seeds, and print what came of them."""
    folder: Path = options.keep
    if options.seeds is not None:
        seeds: Iterator[int] = iter(options.seeds)
    else:
        seeds = count(next_seed(folder))
    stop = threading.Event()
    until = time.monotonic() + options.minutes * 60 if options.minutes is not None else None
    plans = _plans(seeds, until, stop, folder if options.seeds is None else None)
    tally = Tally()
    try:
        with Workers(options.jobs) as workers, console.status("") as status, _stopped_by_ctrl_c(stop):
            shown = time.monotonic()
            for ended in workers.live_all(plans):
                tally.add(ended)
                if ended.findings:
                    _show_findings(ended, keep(folder, ended))
                elif options.verbose:
                    console.print(
                        f"{ended.plan.seed} {ended.digest} {ended.seconds:.1f} s, {ended.callbacks} callbacks"
                    )
                status.update(tally.line())
                if not console.is_terminal and time.monotonic() - shown > PIPED_LINE_SECONDS:
                    shown = time.monotonic()
                    console.print(tally.line())
    except KeyboardInterrupt:
        console.print("stopped at once: lives under way are not counted")
    console.print(tally.line())
    if tally.kinds:
        console.print(_table(tally))
        console.print(f"kept in {folder}: `just life show FILE` tells one, `shrink FILE` cuts it down")
    return 1 if tally.kinds else 0


@contextlib.contextmanager
def _stopped_by_ctrl_c(stop: threading.Event) -> Iterator[None]:
    """Let the first Ctrl-C begin no more lives, and the second one end the command at once."""

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        console.print("stopping after the lives under way; once more: at once")
        stop.set()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _plans(
    seeds: Iterator[int], until: float | None, stop: threading.Event, folder: Path | None
) -> Iterator[Plan]:
    for seed in seeds:
        if stop.is_set() or (until is not None and time.monotonic() > until):
            return
        if folder is not None:
            set_next_seed(folder, seed + 1)
        yield plan_of(str(seed))


def _show_findings(ended: Ended, file: Path) -> None:
    console.print(Text.assemble((f"seed {ended.plan.seed}", "bold red"), (f"  {file}", "dim")))
    for finding in ended.findings[:6]:
        console.print(Text(f"  {finding[:400]}"))
    if len(ended.findings) > 6:
        console.print(Text(f"  and {len(ended.findings) - 6} more", "dim"))


def _table(tally: Tally) -> Table:
    table = Table("lives", "finding", "seeds", box=None, header_style="bold", pad_edge=False)
    for kind, seeds in sorted(tally.kinds.items(), key=lambda item: -len(item[1])):
        table.add_row(str(len(seeds)), Text(kind), " ".join(seeds[:4]) + (" …" if len(seeds) > 4 else ""))
    return table


def coverage(options: argparse.Namespace) -> int:
    """Count what happened in the lives of seeds; 1 if something never did."""
    lives: dict[str, dict[str, int]] = {}
    with Workers(options.jobs) as workers, console.status("") as status:
        for ended in workers.live_all(plan_of(str(seed)) for seed in options.seeds):
            lives[ended.plan.seed] = ended.counts
            status.update(f"{len(lives)} lives")
    console.print(_coverage_table(lives))
    console.print(Text(f"seeds that show all of it: {', '.join(few(lives))}"), soft_wrap=True)
    return int(any(not _lives_with(name, lives) for group in GROUPS.values() for name in group))


def _lives_with(name: str, lives: dict[str, dict[str, int]]) -> int:
    return sum(counts.get(name, 0) > 0 for counts in lives.values())


def _coverage_table(lives: dict[str, dict[str, int]]) -> Table:
    table = Table("", f"of {len(lives)} lives", "in all", box=None, header_style="bold", pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for title, group in GROUPS.items():
        table.add_row(Text(title, "bold"))
        for name in group:
            found = _lives_with(name, lives)
            total = sum(counts.get(name, 0) for counts in lives.values())
            table.add_row(Text(f"  {name}", "" if found else "red"), f"{found:,}", f"{total:,}")
    return table


def sweep(options: argparse.Namespace) -> int:
    """Live one short life with a fault at each of its awaits."""
    tally = Tally()
    with Workers(options.jobs) as workers:
        for kind in [options.kind] if options.kind else KINDS:
            before = tally.lives
            for ended in sweeps.sweep(workers, kind, options.every):
                tally.add(ended)
                if ended.findings:
                    console.print(Text(sweeps.place_of(ended), "bold red"))
                    for finding in ended.findings:
                        console.print(Text(f"  {finding[:400]}"))
            console.print(f"{kind}: {tally.lives - before:,} points")
        if options.show:
            _tell(workers.live(sweeps.plan(options.kind or KINDS[0], options.show)))
    console.print(tally.line())
    return 1 if tally.kinds else 0


def show(options: argparse.Namespace) -> int:
    """Tell a life."""
    with Workers(1) as workers:
        ended = workers.live(read_plan(options.life))
    _tell(ended)
    return 1 if ended.findings else 0


def _tell(ended: Ended) -> None:
    table = Table("seconds", "who", "what", box=None, header_style="bold", pad_edge=False)
    table.columns[0].justify = "right"
    for event in story_of(ended):
        table.add_row(f"{event.at:.3f}", Text(event.who, event.style), Text(event.what, event.style))
    console.print(table if console.is_terminal else Text(plain(story_of(ended))))
    if not ended.findings:
        console.print(Text(f"nothing was found; digest {ended.digest}", "green"))


def shrink(options: argparse.Namespace) -> int:
    """Cut a life down, tell it, and print it as a test."""
    with Workers(1) as workers, console.status("living it once") as status:
        ended = workers.live(read_plan(options.life))
        if not ended.findings:
            console.print("this life has no finding")
            return 0
        wanted = options.finding or ended.findings[0]
        kind = next((kind_of(one) for one in ended.findings if wanted in one), kind_of(wanted))

        def progress(lives: int, plan: Plan) -> None:
            status.update(f"{lives} lives: {len(plan.actions)} actions left of {len(ended.plan.actions)}")

        minimiser = Minimiser(workers.live, kind, ended, progress, max_lives=options.lives)
        smallest = minimiser.shrink()
    actions = f"{len(ended.plan.actions)} actions became {len(smallest.plan.actions)}"
    console.print(Text(f"{actions} after {minimiser.lives} lives; {len(story_of(smallest))} events", "bold"))
    console.print(Text(f"kept as {keep(options.keep / 'shrunk', smallest)}", "dim"))
    _tell(smallest)
    console.print()
    console.print(Text(as_test(smallest.plan, smallest.findings)), soft_wrap=True)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulation", description="Lives of whole hosts, simulated."
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run", help="live the lives of some seeds, or of ever new ones")
    one.add_argument(
        "--seeds", type=_seeds, metavar="A-B", help="these seeds; without it, new ones after the last run's"
    )
    one.add_argument("--minutes", type=float, help="begin no life after so many minutes")
    one.add_argument("--jobs", type=int, default=2, help="lives at a time")
    one.add_argument("-v", "--verbose", action="store_true", help="show every life")
    one.set_defaults(work=run)
    one = commands.add_parser("coverage", help="count what happens in the lives of some seeds")
    one.add_argument("--seeds", type=_seeds, metavar="A-B", default="1-300", help="these seeds (1-300)")
    one.add_argument("--jobs", type=int, default=2, help="lives at a time")
    one.set_defaults(work=coverage)
    one = commands.add_parser("sweep", help="live one short life with a fault at each of its awaits")
    one.add_argument("--kind", choices=KINDS, help="only this fault")
    one.add_argument("--every", type=int, default=1, metavar="N", help="only each n-th await")
    one.add_argument("--show", type=int, metavar="N", help="tell the life with the fault after the n-th, too")
    one.add_argument("--jobs", type=int, default=2, help="lives at a time")
    one.set_defaults(work=sweep)
    one = commands.add_parser("show", help="tell a life as a list of events")
    one.set_defaults(work=show)
    two = commands.add_parser("shrink", help="cut a life with a finding down, and print it as a test")
    two.add_argument("--finding", help="text of the finding that has to remain; without it, the first one")
    two.add_argument("--lives", type=int, default=MAX_LIVES, help="stop after so many")
    two.set_defaults(work=shrink)
    for command in (one, two):
        command.add_argument("life", metavar="SEED|FILE", help="a seed, or a file that `run` kept")
    for command in commands.choices.values():
        command.add_argument(
            "--keep", type=Path, default=Path("lives-found"), help="folder for what is found (lives-found)"
        )
    return parser


def main(arguments: list[str]) -> int:
    """Carry out a command."""
    options = _parser().parse_args(arguments)
    status: int = options.work(options)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
