"""Pins of the plugins that the configuration names, in the database: a `plugins.pins.PluginPins`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hostler.domain.plugin_pins import (
    LockedPackage,
    PluginFacts,
    PluginPin,
    judge_pin,
    packages_of,
    what_changed,
)
from hostler.domain.record import Record
from hostler.plugins.pins import facts_of, machine_target
from hostler.plugins.source import Folder
from hostler.storage.port import Database, Tx
from hostler.storage.stores import plugin_pins as pins
from hostler_protocol.errors import ConflictError, PluginError, PluginStartError

Resolve = Callable[[], Awaitable[str]]
"""Resolves the requirements of a folder as it is now; returns uv's plan."""


class PinStatus(Record):
    """A plugin's pin and its folder; `changed` says what keeps it from starting, if anything does."""

    pin: PluginPin | None
    facts: PluginFacts
    packages: list[LockedPackage]
    changed: str | None


class StoredPins:
    """The pins of one installation."""

    def __init__(self, db: Database, workspace_id: str) -> None:
        self._db = db
        self._workspace = workspace_id
        self._target = machine_target()

    async def admit(self, plugin_key: str, facts: PluginFacts) -> None:
        """See `PluginPins`."""
        known = await self._db.read(lambda tx: pins.find(tx, self._workspace, plugin_key))
        if judge_pin(known, facts) == "known":
            return
        why = await self._db.write(lambda tx: pins.admit(tx, self._workspace, plugin_key, facts))
        if why is not None:
            raise _not_confirmed(plugin_key, why)

    async def judge(self, plugin_key: str, facts: PluginFacts) -> bool:
        """See `PluginPins`."""
        known = await self._db.read(lambda tx: pins.find(tx, self._workspace, plugin_key))
        if known is None:
            return False
        if judge_pin(known, facts) == "changed":
            raise _not_confirmed(plugin_key, what_changed(known, facts))
        return sorted(known.facts.requires) == sorted(facts.requires)

    async def lock(self, plugin_key: str) -> str | None:
        """See `PluginPins`."""
        return await self._db.read(lambda tx: pins.lock(tx, self._workspace, plugin_key, self._target))

    async def keep_lock(self, plugin_key: str, plan: str) -> str:
        """See `PluginPins`."""
        return await self._db.write(
            lambda tx: pins.keep_lock(tx, self._workspace, plugin_key, self._target, plan)
        )

    async def status(self, plugin_key: str, source: Folder) -> PinStatus | None:
        """Compare a plugin's folder with its pin; None if the folder cannot be read."""
        try:
            facts = await asyncio.to_thread(facts_of, source)
        except PluginError:
            return None

        def look(tx: Tx) -> tuple[PluginPin | None, str | None]:
            plan = pins.lock(tx, self._workspace, plugin_key, self._target)
            return pins.find(tx, self._workspace, plugin_key), plan

        pin, plan = await self._db.read(look)
        is_changed = pin is not None and judge_pin(pin, facts) == "changed"
        changed = what_changed(pin, facts) if pin is not None and is_changed else None
        return PinStatus(pin, facts, packages_of(plan or ""), changed)

    async def confirm(
        self, plugin_key: str, source: Folder, *, seen: str, actor: str, resolve: Resolve | None
    ) -> None:
        """Pin the folder as it is now, with what `resolve` gives if that is not None.

        ConflictError if the folder is not what was `seen`; PluginStartError with uv's reason.
        """
        facts = await asyncio.to_thread(facts_of, source)
        if facts.digest != seen:
            text = f"plugin {plugin_key!r} has digest {facts.digest} now, not {seen[:80]!r}: look at it again"
            raise ConflictError(text, digest=facts.digest)
        plan = await resolve() if resolve is not None and facts.requires else None
        lock = None if plan is None else (self._target, plan)
        await self._db.write(
            lambda tx: pins.confirm(tx, self._workspace, plugin_key, facts, actor=actor, new_lock=lock)
        )


def _not_confirmed(plugin_key: str, why: str) -> PluginStartError:
    text = f"{why}, since it was confirmed: look at it, then `hostler plugins confirm {plugin_key}`"
    return PluginStartError(text, lasting=True)
