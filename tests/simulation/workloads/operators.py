"""What operators do while all this goes on: configuration, upgrades, backups, restarts, a second tenant."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from typing import Any

from hostler.domain.retention import Retention
from hostler.host.config import ConfigFile
from hostler.host.config_entries import ENTRY_KINDS
from hostler_protocol.errors import HostlerError
from simulation.life import MANIFEST, TENANT, Life, wait
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads.messages import program

WHAT = (
    "change agent",
    "disable agent",
    "prune",
    "restart plugin",
    "upgrade plugin",
    "backup",
    "roll",
    "collect",
)
ROGUE = {
    "name": "rogue",
    "runner": "plugin:test/rogue/rogue",
    "config": {"timeout": 6},
    "scope": {"type": "conversation", "id": "only for the rogue"},
}
DEEDS = (
    "late",
    "flood",
    "never",
    "wrong calls",
    "two ends",
    "for another",
    "noise",
    "broken frame",
    "exit",
    "big",
)


def plan(draft: Draft) -> None:
    """Mostly: some of what operators do. Now and then: a second workspace; a
    plugin that keeps to no rule."""
    chance = draft.chance("operators")
    if chance.random() < 0.7:
        draft.settings["collect_seconds"] = chance.choice([2.0, 3600.0])
        for _ in range(chance.randint(1, 3)):
            at, what, agent = (
                chance.uniform(0, MAX_MOMENT * 0.8),
                chance.choice(WHAT),
                chance.choice(["a0", "a1"]),
            )
            seconds, host = round(chance.expovariate(1.0), 3), chance.randint(0, 1)
            draft.add(at, what, agent=agent, seconds=seconds, host=host, number=chance.randint(1, 9))
    _tenant(draft, draft.chance("tenant"))
    _rogue(draft, draft.chance("rogue"))


def _tenant(draft: Draft, chance: random.Random) -> None:
    if chance.random() > 0.3:
        return
    draft.tenant = [
        {"name": "a0", "runner": "plugin:test/actor/resumable", "concurrency": {"on_busy": "queue"}}
    ]
    for number in range(chance.randint(1, 2)):
        name = f"e{number}"  # like those of the first workspace, as conversation and agent are
        data: dict[str, Any] = {
            "agent": "a0",
            "conversation": "c1",
            "steps": program(chance, f"tenant.{name}")[:3],
        }
        draft.add(chance.uniform(0, MAX_MOMENT * 0.6), "message", id=name, workspace=TENANT, **data)


def _rogue(draft: Draft, chance: random.Random) -> None:
    if chance.random() > 0.35:
        return
    draft.plugins = [*draft.plugins, "rogue"]
    draft.agents.append(ROGUE)
    for number in range(chance.randint(1, 3)):
        deeds = [chance.choice(DEEDS) for _ in range(chance.randint(1, 3))]
        data: dict[str, Any] = {"agent": "rogue", "conversation": f"r{chance.randint(1, 2)}", "steps": deeds}
        draft.add(chance.uniform(0, MAX_MOMENT * 0.6), "message", id=f"r{number}", **data)


# -- configuration ---------------------------------------------------------------------------------


async def change_agent(life: Life, action: Action) -> None:
    """Make a new version of an agent, or disable it for a while."""
    spec = next(one for one in life.plan.agents if one["name"] == action.data["agent"])
    off = action.what == "disable agent"
    await _put(life, action, {**spec, "enabled": not off, "metadata": {"change": action.data["number"]}})
    if off:
        await wait(action.data["seconds"])
        await _put(life, action, spec)


async def _put(life: Life, action: Action, spec: dict[str, Any]) -> None:
    agents, name = ENTRY_KINDS["agents"], spec["name"]
    await _operate(life, action, lambda h: h.put_entry(agents, spec, actor="operator", name=name))


async def prune(life: Life, action: Action) -> None:
    """Remove an agent by applying a file that does not name it, and bring it back later."""
    without = life.config(action.data["agent"])
    await _operate(life, action, lambda h: h.apply(without, actor="operator", prune=True))
    await wait(action.data["seconds"])
    await _operate(life, action, lambda h: h.apply(life.config(), actor="operator"))


async def _operate(life: Life, action: Action, work: Any) -> None:
    try:
        await life.persist(action.data["host"], work, seconds=60)
    except HostlerError as error:
        life.outside.note("operation refused", what=action.what, code=error.code, error=error.message)
    else:
        life.outside.note("operated", what=action.what, agent=action.data["agent"])


# -- plugins and hosts -----------------------------------------------------------------------------


async def restart_plugin(life: Life, action: Action) -> None:
    """Restart the plugin at all hosts, perhaps from files in which a tool has another schema."""
    manifest = life.plugin("plugin") / MANIFEST
    if action.what == "upgrade plugin":
        text = manifest.read_text()
        old, new = '"actor:refund"', '"later:refund"'
        manifest.write_text(text.replace(old, new) if old in text else text.replace(new, old))
    for host in life.hosts:
        if host.up:
            try:
                await host.ask(lambda h: h.supervisor.restart("test/actor"), seconds=60)
            except HostlerError as error:
                life.outside.note("operation refused", what=action.what, code=error.code, error=error.message)
            else:
                life.outside.note("operated", what=action.what, host=host.name)


async def roll(life: Life, action: Action) -> None:
    """Stop and start one host after the other."""
    for host in life.hosts:
        process = host.process
        host.stop()
        while process is not None and process.alive and not life.calm.is_set():
            await wait(0.1)
        await wait(action.data["seconds"])
        host.start()
        await life.some_host(life.hosts.index(host))
    life.outside.note("operated", what=action.what)


# -- data ------------------------------------------------------------------------------------------


async def backup(life: Life, action: Action) -> None:
    """Back up a database in use: the copy must be whole, and have every event acknowledged before."""
    host = await life.some_host(action.data["host"])
    if host.shared:
        return  # its server has tools of its own
    known = {data["event"] for _, kind, data in life.outside.notes if kind == "accepted"}
    target = life.folder / f"backup {action.at}.db"
    try:
        await host.ask(lambda h: h.db.backup(target), seconds=60)
    except HostlerError as error:
        life.outside.note("operation refused", what="backup", code=error.code, error=error.message)
        return
    life.outside.note("operated", what="backup", events=len(known))
    with contextlib.closing(sqlite3.connect(target)) as copy:
        (whole,) = copy.execute("PRAGMA quick_check").fetchone()
        missing = known - {event for (event,) in copy.execute("SELECT event_id FROM events")}
    if whole != "ok":
        life.outside.note("wrong", text=f"a backup is not whole: {whole}")
    if missing:
        life.outside.note("wrong", text=f"a backup lacks acknowledged events: {sorted(missing)}")


async def collect(life: Life, action: Action) -> None:
    """Keep data for a day from now on; what is collected meanwhile is not as old."""
    config = ConfigFile(retention=Retention(events=1, journals=1, deltas=1, transcripts=1))
    await _operate(life, action, lambda h: h.apply(config, actor="operator"))


ACTIONS = {
    "change agent": change_agent,
    "disable agent": change_agent,
    "prune": prune,
    "restart plugin": restart_plugin,
    "upgrade plugin": restart_plugin,
    "roll": roll,
    "backup": backup,
    "collect": collect,
}
