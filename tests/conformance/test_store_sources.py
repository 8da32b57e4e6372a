"""Which run a run was made from, and dead letters, on both databases."""

from __future__ import annotations

from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import run_sources as sources
from hostler.storage.stores import runs
from hostler.storage.stores.run_sources import Source
from hostler_protocol.events import Input
from support.databases import read, write
from support.run_rows import new


def opened(database: SqlDatabase, run_id: str, ws: str = "w") -> None:
    write(database, lambda tx: runs.open(tx, new(run_id, workspace=ws), None))


def failed(database: SqlDatabase, run_id: str, code: str) -> None:
    def fail(tx: object) -> object:
        return runs.transition(tx, run_id, None, "failed", cause="test", actor="t", status_code=code)  # type: ignore[arg-type]

    write(database, fail)


def test_a_run_knows_its_source_and_a_source_its_runs(database: SqlDatabase) -> None:
    for run_id in ("r1", "r2", "r3"):
        opened(database, run_id)
    fork = Source(
        run_id="r2",
        source_run_id="r1",
        kind="fork",
        step=3,
        base_attempt=2,
        until_position=17,
        effects=False,
        input=Input(text="another"),
    )
    retry = Source(run_id="r3", source_run_id="r1", kind="retry")
    for source in (fork, retry):
        write(database, lambda tx, s=source: sources.insert(tx, "w", s))  # type: ignore[misc]
    assert read(database, lambda tx: sources.find(tx, "w", "r2")) == fork
    assert read(database, lambda tx: sources.find(tx, "w", "r3")) == retry
    assert read(database, lambda tx: sources.find(tx, "w", "r1")) is None
    assert read(database, lambda tx: sources.find(tx, "v", "r2")) is None
    assert read(database, lambda tx: sources.made_from(tx, "w", "r1")) == ["r2", "r3"]
    write(database, lambda tx: sources.share_turn(tx, "w", runs.get(tx, "w", "r1"), "r2"))


def test_dead_letters_are_those_the_host_gave_up_on_and_nobody_did_again(database: SqlDatabase) -> None:
    codes = {"r1": "runner.crashed", "r2": "runner.error", "r3": "host.restarted", "r4": "replay.diverged"}
    for run_id, code in codes.items():
        opened(database, run_id)
        failed(database, run_id, code)
    opened(database, "other", ws="v")
    failed(database, "other", "runner.crashed")

    def dead() -> list[str]:
        return [run.run_id for run in read(database, lambda tx: sources.dead(tx, "w"))]

    assert sorted(dead()) == ["r1", "r3", "r4"]
    assert read(database, lambda tx: sources.dead(tx, "w", agent_name="nobody")) == []
    opened(database, "r5")
    again = Source(run_id="r5", source_run_id="r1", kind="retry")
    write(database, lambda tx: sources.insert(tx, "w", again))
    assert sorted(dead()) == ["r3", "r4"]
