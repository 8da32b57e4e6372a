"""Each judge is able to fail: something of a life that is sound is changed, and the judge names it.

A change is made to the facts (SQL, undone afterwards) or to what the outside saw, after the life has ended.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path

import pytest

from simulation import catalog, judges, specimens
from simulation.judges import leftovers
from simulation.life import Life
from simulation.lives import in_child, make_template
from simulation.plan import Plan
from simulation.tamperings import TAMPERINGS

SPECIMENS = {
    "calm": specimens.CALM,
    "hard": specimens.HARD,
    "erased": specimens.ERASED,
    "sealed": specimens.SEALED,
    "watched": specimens.WATCHED,
    "held": specimens.HELD,
    "sources": specimens.SOURCES,
}


def prove(life: Life) -> list[str]:
    """Tamper with the life in each way, and undo it; return the number of each with what its judge found."""
    connection = life.facts(life.hosts[0])
    connection.isolation_level = None
    found = []
    for number, one in enumerate(TAMPERINGS):
        if getattr(specimens, one.plan) is not life.plan:
            continue
        notes, effects = list(life.outside.notes), list(life.outside.effects)
        stood, errors = copy.deepcopy(life.standing), list(life.world.loop.errors)
        plugins, records = list(life.world.plugins.lives), list(life.logged.records)
        square = life.outside.square
        connection.execute("BEGIN")
        try:
            if isinstance(one.change, str):
                if connection.execute(one.change).rowcount < 1:
                    found.append(f"{number} nothing was changed")
            else:
                one.change(life)
            found += [f"{number} {finding}" for finding in function_of(one.judge)(life)]
        except Exception as error:  # noqa: BLE001  shown by the test of this tampering
            found.append(f"{number} tampering failed: {error!r}")
        finally:
            connection.execute("ROLLBACK")
            life.outside.notes, life.outside.effects = notes, effects
            life.standing, life.world.loop.errors = stood, errors
            life.world.plugins.lives, life.logged.records = plugins, records
            life.outside.square = square
    return found


def function_of(name: str) -> Callable[[Life], list[str]]:
    """Return the function of a judge, or the whole judge if it takes more than the life."""
    module_name, function_name = name.split(".")
    module = importlib.import_module(f"simulation.judges.{module_name}")
    function: Callable[[Life], list[str]] = getattr(module, function_name)
    whole: Callable[[Life], list[str]] = module.judge
    return function if list(inspect.signature(function).parameters) == ["life"] else whole


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "template.db"
    make_template(path)
    return path


@pytest.fixture(scope="module")
def findings(template: Path) -> dict[int, list[str]]:
    """What judges found, by the number of the tampering."""
    found: dict[int, list[str]] = {}
    for plan in SPECIMENS.values():
        for line in in_child(
            plan, template, lambda: catalog.JUDGES.__setitem__(slice(None), [prove])
        ).findings:
            number, _, finding = line.partition(" ")
            found.setdefault(int(number), []).append(finding)
    return found


@pytest.mark.parametrize("plan", SPECIMENS.values(), ids=SPECIMENS)
def test_the_lives_that_are_tampered_with_are_sound(plan: Plan, template: Path) -> None:
    assert in_child(plan, template).findings == []


@pytest.mark.parametrize(
    "number", range(len(TAMPERINGS)), ids=[f"{one.judge}: {one.finds}" for one in TAMPERINGS]
)
def test_a_judge_names_what_was_tampered_with(number: int, findings: dict[int, list[str]]) -> None:
    assert any(TAMPERINGS[number].finds in finding for finding in findings.get(number, [])), findings.get(
        number
    )


def test_every_judge_is_tried() -> None:
    functions = set()
    for info in pkgutil.iter_modules(judges.__path__):
        module = importlib.import_module(f"simulation.judges.{info.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            signature = inspect.signature(function)
            judges_a_life = "life" in signature.parameters and signature.return_annotation == "list[str]"
            if function.__module__ == module.__name__ and judges_a_life:
                parts = "*_" in inspect.getsource(function) and name == "judge"
                functions |= set() if parts else {f"{info.name}.{name}"}
    assert functions - {one.judge for one in TAMPERINGS} == set()


def test_every_row_that_may_be_left_is_tried() -> None:
    tried = [one.finds for one in TAMPERINGS if one.judge == "leftovers.judge"]
    assert [what for what in leftovers.ROWS if not any(what in finds for finds in tried)] == []
