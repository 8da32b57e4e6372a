"""Live lives with a mutant until one finds it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from simulation.catalog import plan_of
from simulation.findings import kind_of
from simulation.life import Ended
from simulation.lives import Workers, findings_of
from simulation.mutants.form import FOLDER, Mutant
from simulation.plan import Plan
from simulation.shrink import Minimiser
from simulation.story import story_of

PUT_BACK = sorted((FOLDER / "put_back").glob("*.json"))
"""Lives that found defects which are put back, cut down (`Shrunk`)."""
HEAD = f"{'mutant':26} {'seed':>5} {'lives':>6} {'actions':>7} {'events':>7}  finding"
"""Events: of the story of the life when it is cut down."""


class Shrunk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A life that was cut down, `put_back/NAME.json`: with the mutant it has a finding of this kind."""

    finding: str
    plan: Plan


@dataclass(frozen=True)
class Verdict:
    """What lives found of a mutant. `found` None: nothing within `lives` lives; `shrunk`: cut down."""

    mutant: Mutant
    lives: int
    found: Ended | None = None
    shrunk: Ended | None = None

    def row(self) -> str:
        """Return it as a line of a table."""
        name = self.mutant.name
        if self.found is None:
            return f"{name:26} not found in {self.lives} lives"
        shrunk = "" if self.shrunk is None else str(len(story_of(self.shrunk)))
        actions = len(self.found.plan.actions)
        finding = self.found.findings[0].splitlines()[0]
        return (
            f"{name:26} {self.found.plan.seed:>5} {self.lives:>6} {actions:>7} {shrunk:>7}  {finding[:150]}"
        )

    def keep(self, folder: Path) -> None:
        """Write the file of the life that was cut down."""
        if self.shrunk is not None:
            shrunk = Shrunk(kind_of(self.shrunk.findings[0]), self.shrunk.plan)
            text = msgspec.json.format(msgspec.json.encode(shrunk))
            (folder / f"{self.mutant.name}.json").write_bytes(text + b"\n")


def hunt(mutant: Mutant, seeds: Iterable[int], *, cut_down: int = 0) -> Verdict:
    """Live lives of some seeds with the mutant, until one has findings that it does not have without.

    `cut_down`: the most lives to spend on making that life smaller.
    """
    lives = 0
    with (
        tempfile.TemporaryDirectory(prefix="hostler-mutant-") as folder,
        Workers(1, packages=mutant.write(Path(folder))) as workers,
    ):
        for seed in seeds:
            ended = workers.live(plan_of(str(seed)))
            lives += 1
            if ended.findings and (new := _new(ended)):
                kind = kind_of(new[0])
                ended.findings[:] = new
                minimiser = Minimiser(workers.live, kind, ended, max_lives=cut_down)
                return Verdict(mutant, lives, ended, minimiser.shrink() if cut_down else None)
    return Verdict(mutant, lives)


def _new(ended: Ended) -> list[str]:
    """Return the findings of a life that it does not have without the mutant."""
    known = {kind_of(one) for one in findings_of(ended.plan)}
    return [one for one in ended.findings if kind_of(one) not in known]
