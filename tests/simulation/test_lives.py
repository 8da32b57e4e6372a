"""Lives of whole hosts in a simulated world (docs/simulation.md)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from simulation import defects
from simulation.catalog import plan_of
from simulation.findings import kind_of
from simulation.folders import own_folder
from simulation.held import held_by
from simulation.lives import TESTS, Prepare, Workers, in_child, live_all, make_template
from simulation.plan import Action, Plan
from simulation.shrink import Minimiser, as_test
from simulation.story import story_of

SOURCES = [str(path) for path in (Path(__file__).parents[2] / "packages").glob("*/src")]


SEEDS = range(1, 9)
MEMORY_NOISE = 2 << 20
"""Bytes. A life that left its facts in its worker would leave more in thirty lives."""


def digests(python: str = sys.executable, jobs: int = 1) -> dict[str, str]:
    ended = live_all((plan_of(str(seed)) for seed in SEEDS), jobs=jobs, python=python)
    return {one.plan.seed: one.digest for one in ended}


def test_a_seed_lives_the_same_life_in_every_process() -> None:
    assert digests() == digests(jobs=2)


def test_a_seed_lives_the_same_life_in_another_version_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.environ.get("HOSTLER_OTHER_PYTHON")
    if not other:
        pytest.skip("HOSTLER_OTHER_PYTHON names no Python of another version; .ci/other-python finds one")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(SOURCES))
    version = "import sys; print(sys.version_info[:2])"
    said = subprocess.run([other, "-c", version], capture_output=True, text=True, check=True).stdout.strip()
    if said == str(sys.version_info[:2]):
        pytest.skip(f"HOSTLER_OTHER_PYTHON is {said}, like this one")
    assert digests() == digests(other)


# -- what runs and cuts lives down ----------------------------------------------------------------

LONG = Plan(
    seed="made up",
    hosts=2,
    agents=[{"name": f"a{n}", "runner": "plugin:test/actor/plain"} for n in range(3)],
    actions=[
        Action(
            float(n),
            "message",
            {
                "id": f"e{n}",
                "agent": f"a{n % 3}",
                "conversation": "c",
                "steps": [["say", "x"], ["wait", 1.5]],
            },
        )
        for n in range(6)
    ]
    + [
        Action(6.5, "power cut", {"host": 1, "seconds": 3.0}),
        Action(7.0, "kill host", {"host": 0, "seconds": 3.0}),
    ],
)


def test_a_life_with_a_made_up_defect_shrinks_to_what_it_takes() -> None:
    with Workers(1, defects.no_power_cut_after_a_message) as workers:
        ended = workers.live(LONG)
        assert ended.findings == ["a power cut came after a message to a0"]
        smallest = Minimiser(workers.live, kind_of(ended.findings[0]), ended, seeds=(1,)).shrink()
    plan = smallest.plan
    assert [action.what for action in plan.actions] == ["message", "power cut"]
    message, cut = plan.actions
    assert message.data["steps"] == []
    assert (message.at, cut.at) == (0.0, 0.1)
    assert [agent["name"] for agent in plan.agents] == ["a0"]
    assert plan.hosts == 1
    assert len(story_of(smallest)) < 15


def test_the_printed_test_holds_the_plan() -> None:
    text = as_test(LONG, ["a finding"])
    names: dict[str, object] = {"Plan": Plan, "Action": Action}
    plans: list[Plan] = []

    def findings_of(plan: Plan) -> list[str]:
        plans.append(plan)
        return []

    names["findings_of"] = findings_of
    exec(f"{text}\ntest_life_made_up()", names)
    assert plans == [LONG]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "template.db"
    make_template(path)
    return path


def test_a_life_that_hangs_says_where(template: Path) -> None:
    (finding,) = in_child(Plan(seed="1"), template, defects.hang, seconds=3.0).findings
    assert finding.startswith("the life hangs: not over after 3 s")
    assert "defects.py" in finding


def test_a_child_that_dies_says_why(template: Path) -> None:
    (finding,) = in_child(Plan(seed="1"), template, defects.die).findings
    assert "ValueError: as it was told" in finding


@pytest.mark.parametrize("defect", [defects.hang, defects.kill_itself, defects.die])
def test_a_life_leaves_no_files_however_it_ends(defect: Prepare, template: Path) -> None:
    assert in_child(Plan(seed="1"), template, defect, seconds=2.0).findings
    assert list(template.parent.iterdir()) == [template]


def test_lives_leave_nothing_in_their_worker() -> None:
    plan = Plan(seed="1", hosts=2, agents=LONG.agents, actions=LONG.actions[:1])
    with Workers(1) as workers:
        for _ in range(3):  # what is loaded at first use
            workers.live(plan)
        before = held_by(workers.process())
        for _ in range(30):
            assert workers.live(plan).findings == []
        after = held_by(workers.process())
    assert before.counts == after.counts
    assert before.files == after.files
    assert after.memory < before.memory + MEMORY_NOISE


@pytest.mark.parametrize("first", [True, False])
def test_a_worker_that_is_killed_fails_its_life_and_not_those_of_others(first: bool) -> None:
    with Workers(2) as workers:
        pid = workers.process()
        assert workers.live(Plan(seed="1")).findings == []  # all have been forked
        (other,) = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        os.kill(pid if first else other, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="a worker ended before it had lived the life of seed"):
            list(workers.live_all(Plan(seed=str(seed)) for seed in range(1, 9)))


def test_a_reporter_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from simulation.folders import own_folder\n"
        "with own_folder(Path(sys.argv[1])) as own:\n"
        "    (own / 'left').touch(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with own_folder(tmp_path) as first:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, env=environment)
        (abandoned,) = set(tmp_path.iterdir()) - {first}
        assert (abandoned / "left").exists()
        with own_folder(tmp_path) as second:
            assert set(tmp_path.iterdir()) == {first, second}
    assert list(tmp_path.iterdir()) == []


def test_a_reporter_leaves_what_another_user_left(tmp_path: Path) -> None:
    code = (
        "import os; from pathlib import Path; from simulation.folders import PREFIX, remove_abandoned\n"
        "os.geteuid() or os.setuid(65534)\n"
        "Path(f'{PREFIX}own').mkdir(); remove_abandoned(Path())"
    )
    tmp_path.chmod(0o777)
    foreign = tmp_path / "hostler-lives-foreign"
    foreign.mkdir(mode=0)  # so that its owner may not open it either, where this is not root
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env=environment)
    assert list(tmp_path.iterdir()) == [foreign]


def test_kinds_of_findings_leave_out_names() -> None:
    first = "run 01a0c450-9a8e-7432-a5d5-0b1dd5afc3eb: 1 was seen as x, the journal holds ('y', {'data': 1})"
    second = (
        "run 01a0c450-6cd3-7a38-8deb-9422a6a4b6c4: 17 was seen as x, the journal holds ('y', {'data': 2})"
    )
    assert kind_of(first) == kind_of(second) == "run …: … was seen as x, the journal holds …"
