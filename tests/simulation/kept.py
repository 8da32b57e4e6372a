"""What lives showed, kept in a folder: a file for each life with findings, and the seed that comes next."""

from __future__ import annotations

from pathlib import Path

import msgspec

from simulation.catalog import plan_of
from simulation.life import Ended
from simulation.plan import Plan


class Kept(msgspec.Struct, frozen=True):
    """The file of a life."""

    plan: Plan
    findings: list[str]
    digest: str


def keep(folder: Path, ended: Ended) -> Path:
    """Write the file of a life, and return where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{ended.plan.seed.replace('/', '-')}.json"
    kept = Kept(ended.plan, ended.findings, ended.digest)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(kept)))
    return file


def read_plan(life: str) -> Plan:
    """Return the plan of a seed, or of a file that `keep` wrote."""
    file = Path(life)
    return msgspec.json.decode(file.read_bytes(), type=Kept).plan if file.is_file() else plan_of(life)


def next_seed(folder: Path) -> int:
    """Return the first seed that was not lived yet by runs that keep in this folder."""
    file = folder / "next-seed"
    return int(file.read_text()) if file.is_file() else 1


def set_next_seed(folder: Path, seed: int) -> None:
    """Note where the next run begins."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "next-seed").write_text(f"{seed}\n")
