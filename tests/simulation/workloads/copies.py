"""Backups that are restored, and recorded runs that are replayed."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import msgspec.structs

from hostler.domain.tapes import read_tape
from hostler.host.host import Host
from hostler.host.lock import maintenance
from hostler.journal.export import tape_of
from hostler.journal.replay_session import Replayed
from hostler.journal.replayer import Cast, Replayer
from hostler.plugins.context import RunningPlugin
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from hostler.simulation.disk import SimulatedDisk
from hostler.simulation.world import SimulatedHost
from hostler.storage.stores.verification import verify_all
from hostler_protocol.errors import HostlerError
from simulation.life import WORKSPACE, Life, wait
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads.messages import read

REPLAY_SECONDS = 60.0


def plan(draft: Draft) -> None:
    """Now and then: a backup that is restored next to the host; more often: runs replayed."""
    chance = draft.chance("copies")
    if chance.random() < 0.4:
        draft.add(chance.uniform(0, MAX_MOMENT), "back up and restore", host=chance.randint(0, 1))
    chance = draft.chance("replays")
    sent = [one for one in draft.actions if one.what == "message" and "workspace" not in one.data]
    if chance.random() < 0.5 and sent:
        for number in range(chance.randint(1, 2)):
            one = chance.choice(sent)
            draft.add(one.at, "replay", event=one.data["id"], number=number, host=chance.randint(0, 1))


async def back_up_and_restore(life: Life, action: Action) -> None:
    """Back up as `hostler backup` does, and look at the copy through a host that works on no run."""
    host = await life.some_host(action.data["host"])
    if host.shared:
        return  # its server has tools of its own
    known = {data["event"] for _, kind, data in life.outside.notes if kind == "accepted"}
    data_dir = life.folder / f"copy {action.at}"
    data_dir.mkdir()
    try:
        await host.ask(lambda h: _copy(h, data_dir), seconds=60)
    except HostlerError as error:
        life.outside.note("operation refused", what=action.what, code=error.code, error=error.message)
        return
    for text in _faults_of(data_dir, known):
        life.outside.note("wrong", text=text)
    settings = msgspec.structs.replace(host.settings, data_dir=data_dir, passive=True)
    disk = SimulatedDisk(data_dir / "hostler.db")
    copy = SimulatedHost(life.world, f"copy of {host.name}", settings, disk, shared=False)
    copy.start()
    while not copy.up and copy.failed is None:
        await wait(0.1)
    if copy.failed is not None:
        life.outside.note("wrong", text=f"a restored backup does not start: {copy.failed}")
        return
    reports = await copy.ask(lambda h: verify_all(h.db), seconds=60)
    for report in reports:
        if report.broken is not None:
            text = f"the {report.chain} chain of a restored backup is broken: {report.broken}"
            life.outside.note("wrong", text=text)
    copy.stop()
    life.outside.note("restored", events=len(known))


async def _copy(host: Host, data_dir: Path) -> None:
    with maintenance(host.settings.data_dir, shared=True):
        await host.db.backup(data_dir / "hostler.db")
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(host.settings.data_dir / "blobs", data_dir / "blobs")


def _faults_of(data_dir: Path, known: set[str]) -> list[str]:
    """Return what is wrong with a backup: pages, events that were acknowledged before, files of artifacts."""
    found = []
    with contextlib.closing(sqlite3.connect(data_dir / "hostler.db")) as copy:
        (whole,) = copy.execute("PRAGMA quick_check").fetchone()
        if whole != "ok":
            found.append(f"a backup is not whole: {whole}")
        missing = known - {event for (event,) in copy.execute("SELECT event_id FROM events")}
        if missing:
            found.append(f"a backup lacks acknowledged events: {sorted(missing)}")
        needed = {
            sha
            for (sha,) in copy.execute(
                "SELECT coalesce(stored_as, sha256) FROM artifacts WHERE sha256 IS NOT NULL"
            )
        }
    there = {path.name for path in (data_dir / "blobs").glob("??/??/*")}
    if needed - there:
        found.append(f"a backup lacks the content of {len(needed - there)} files")
    return found


async def replay(life: Life, action: Action) -> None:
    """Replay a run when the faults are over, which would strike its plugin, too: it must do the same."""
    run = await life.run_of(action.data["event"])
    if run is None:
        return
    await read(life, run, action.data["host"], f"{action.data['event']} for replay {action.data['number']}")
    await life.calm.wait()
    ((status, runner),) = life.rows(f"SELECT status, runner_id FROM runs WHERE run_id = '{run}'")
    # an attempt that was resumed in the middle of calls made at once may have got their answers in another
    # order than their outcomes have in the journal (docs/decisions/going-on-from-the-journal.md)
    at_once = f"SELECT 1 FROM journal WHERE run_id = '{run}' AND kind = 'context' AND data LIKE '%together%'"
    resumed = f"SELECT 1 FROM journal WHERE run_id = '{run}' AND kind = 'attempt' AND type = 'resumed'"
    # a runner that gives calls up does so by its own clock, before or after the answers of others
    gave_up = f"SELECT 1 FROM journal WHERE run_id = '{run}' AND kind = 'result' AND data LIKE '%gave up%'"
    other_order = life.rows(at_once) and (life.rows(resumed) or life.rows(gave_up))
    if status != "completed" or "/actor/" not in runner or other_order:
        return
    folder = life.folder / f"replay {action.data['number']}"
    before = len(life.outside.effects)
    life.outside.note("replays", run=run)
    try:
        replayed = await life.persist(
            action.data["host"], lambda h: _replay(life, h, run, folder), seconds=REPLAY_SECONDS * 3
        )
    except HostlerError as error:
        life.outside.note("operation refused", what=action.what, code=error.code, error=error.message)
        return
    life.outside.note("replayed", run=run, identical=replayed.is_identical, steps=replayed.steps)
    if replayed.divergence is not None:
        life.outside.note("wrong", text=f"run {run}, replayed, differs: {replayed.divergence}")
    made = [one for one in life.outside.effects[before:] if one.run == run]
    if made:
        life.outside.note("wrong", text=f"the replay of run {run} had effects: {made}")


async def _replay(life: Life, host: Host, run: str, folder: Path) -> Replayed:
    tape = read_tape(await tape_of(host.db, host.blobs, WORKSPACE, run, host_version="simulated"))
    folder.mkdir(exist_ok=True)
    plugins = life.world.plugins

    async def start(*given: Any, **more: Any) -> RunningPlugin:
        life.replaying.add(len(plugins.lives))
        return await plugins.start(*given, **more)

    supervisor = Supervisor(folder, start=start)
    try:
        replayer = Replayer(supervisor, None)
        return await replayer.replay(tape, Cast(Folder(life.plugin("plugin"))), seconds=REPLAY_SECONDS)
    finally:
        await supervisor.close(0)


ACTIONS = {"back up and restore": back_up_and_restore, "replay": replay}
