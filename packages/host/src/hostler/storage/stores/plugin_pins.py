"""Pins of plugins: what was first started or confirmed since, and the locks of their requirements."""

from __future__ import annotations

import msgspec

from hostler.domain.plugin_pins import PluginFacts, PluginPin, judge_pin, packages_of, what_changed
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit
from hostler_protocol.errors import NotFoundError

_q = load(__file__)
_texts = msgspec.json.Decoder(list[str])


def find(tx: Tx, ws: str, plugin: str) -> PluginPin | None:
    """Return the pin of a plugin, or None."""
    row = tx.one(_q.find, ws=ws, plugin=plugin)
    if row is None:
        return None
    requires = tuple(_texts.decode(row["requires"]))
    facts = PluginFacts(row["source"], row["version"], requires, row["files"])
    return PluginPin(plugin, facts, row["recorded_at"], row["confirmed_at"], row["confirmed_by"])


def admit(tx: Tx, ws: str, plugin: str, facts: PluginFacts) -> str | None:
    """Return why a plugin may not be started as its folder is now, or None. What is new is recorded.

    A folder with other requirements than the one before loses its locks.
    """
    pin = find(tx, ws, plugin)
    verdict = judge_pin(pin, facts)
    if pin is not None and verdict == "changed":
        return what_changed(pin, facts)
    if verdict != "known":
        if pin is not None and sorted(pin.facts.requires) != sorted(facts.requires):
            tx.run(_q.drop_locks, ws=ws, plugin=plugin)
        tx.run(_q.record, ws=ws, plugin=plugin, now=tx.now, **_columns(facts))
        action = f"plugin.{'recorded' if verdict == 'new' else verdict}"
        audit.record(tx, ws, actor="host", action=action, target=plugin, body=_body(facts))
    return None


def confirm(
    tx: Tx, ws: str, plugin: str, facts: PluginFacts, *, actor: str, new_lock: tuple[str, str] | None
) -> None:
    """Pin a plugin as its folder is now. `new_lock`: what its requirements were resolved to, and where.

    Other kinds of machines resolve them at their next start then. NotFoundError.
    """
    known = find(tx, ws, plugin)
    if known is None:
        raise NotFoundError(f"plugin {plugin!r} was never started by an entry: there is nothing to confirm")
    tx.run(_q.confirm, ws=ws, plugin=plugin, actor=actor, now=tx.now, **_columns(facts))
    audit.record(tx, ws, actor=actor, action="plugin.confirmed", target=plugin, body=_body(facts))
    if new_lock is not None:
        target, plan = new_lock
        if plan != lock(tx, ws, plugin, target):
            tx.run(_q.drop_locks, ws=ws, plugin=plugin)
            keep_lock(tx, ws, plugin, target, plan, actor=actor)
    elif not facts.requires:
        tx.run(_q.drop_locks, ws=ws, plugin=plugin)


def forget(tx: Tx, ws: str, source: str) -> None:
    """Remove the pins and locks of a folder: its entry was removed."""
    for row in tx.all(_q.of_source, ws=ws, source=source):
        tx.run(_q.forget, ws=ws, plugin=row["plugin"])
        tx.run(_q.drop_locks, ws=ws, plugin=row["plugin"])


def lock(tx: Tx, ws: str, plugin: str, target: str) -> str | None:
    """Return the plan of a plugin's environment on a kind of machine, or None."""
    row = tx.one(_q.lock, ws=ws, plugin=plugin, target=target)
    return None if row is None else str(row["plan"])


def keep_lock(tx: Tx, ws: str, plugin: str, target: str, plan: str, *, actor: str = "host") -> str:
    """Keep a plan, unless another host was faster; return the one that holds."""
    if tx.run(_q.put_lock, ws=ws, plugin=plugin, target=target, plan=plan, now=tx.now):
        body = {"target": target, "packages": [f"{one.name} {one.version}" for one in packages_of(plan)]}
        audit.record(tx, ws, actor=actor, action="plugin.locked", target=plugin, body=body)
        return plan
    return lock(tx, ws, plugin, target) or plan


def _columns(facts: PluginFacts) -> dict[str, str | None]:
    requires = msgspec.json.encode(list(facts.requires)).decode()
    return {"source": facts.source, "version": facts.version, "requires": requires, "files": facts.files}


def _body(facts: PluginFacts) -> dict[str, object]:
    """Return the body of an audit fact."""
    return {**_columns(facts), "requires": list(facts.requires), "digest": facts.digest}
