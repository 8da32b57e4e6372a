"""Clients that watch a conversation or the workspace, are cut off, and go on by their cursor.

Few lives have one: that costs little, and what they judge is the same in each.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, cast

from hostler.domain.retention import TimelineLostError
from hostler.host.host import Host
from hostler.journal.feed import StoredResult
from hostler.journal.timeline_feed import TimelineFilter
from hostler.storage.stores.timeline import digest_of
from hostler_protocol.errors import HostlerError
from simulation.life import RETRY_SECONDS, SELDOM_SECONDS, WORKSPACE, Life
from simulation.plan import MAX_MOMENT, Action, Draft

SHARE = 0.1
"""Of lives that may have watchers: with what decides about workloads, one of thirty."""
LATE_SECONDS = 60.0
"""At rest, and without being cut off, a watcher has seen all within this time."""
HOURS = 7_200.0
"""Longer than any life: a connection lasts as long as its two sides do."""


class Shown(NamedTuple):
    """One entry of a stream, as the facts have it. `of`: its run or event.

    `data`: of a result, as JSON; of a change of a run's status, the status.
    """

    type: str
    of: str | None
    data: str | None


def plan(draft: Draft) -> None:
    """Seldom: one watcher of the workspace, one of a conversation, or both."""
    chance = draft.chance("watchers")
    if chance.random() > SHARE:
        return
    for number in range(chance.randint(1, 2)):
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.4),
            "watch",
            id=f"v{number}",
            conversation=chance.choice([None, "c1", "c2"]),
            start=chance.random() < 0.5,
            cut=round(chance.uniform(0.5, 8.0), 2),
            host=chance.randint(0, 1),
        )


async def watch(life: Life, action: Action) -> None:
    """Watch from one host or another until all is at rest, and all was seen."""
    watcher = _Watcher(life, action.data)
    while not (watcher.done or life.over):
        host = await life.some_host(action.data["host"])
        try:
            await host.ask(watcher.follow, seconds=HOURS)
        except TimelineLostError:
            watcher.after = None
        except HostlerError as error:
            watcher.note("watch broke", code=error.code)
            watcher.look()
        if not watcher.done:
            await life.look_again(RETRY_SECONDS)


class _Watcher:
    def __init__(self, life: Life, data: dict[str, Any]) -> None:
        self.life, self.data = life, data
        self.after: int | None = None
        self.done = False
        self._wanted = TimelineFilter(WORKSPACE, data["conversation"])
        self._chance = random.Random(f"{life.plan.seed}/watches/{data['id']}")
        self._late_at: float | None = None

    def note(self, kind: str, **data: Any) -> None:
        self.life.outside.note(kind, watcher=self.data["id"], conversation=self.data["conversation"], **data)

    async def follow(self, host: Host) -> None:
        """Follow at a host until it is cut off, or all was seen."""
        feed, loop = host.runs.timelines, self.life.world.loop
        if self.after is None:
            start = feed.start if self.data["start"] else feed.head
            self.after = await start(WORKSPACE)
            self.note("watch begins", after=self.after)
        await feed.check(self._wanted, self.after)
        batches = cast("AsyncGenerator[list[StoredResult], None]", feed.watch(self._wanted, self.after))
        cut_at = loop.time() + self._chance.expovariate(1 / self.data["cut"])
        pending = asyncio.ensure_future(anext(batches))
        try:
            while not self.done and (self.life.calm.is_set() or loop.time() < cut_at):
                calm = self.life.calm.is_set()
                await asyncio.wait({pending}, timeout=SELDOM_SECONDS if calm else cut_at - loop.time())
                if pending.done():
                    self._take(pending.result())
                    pending = asyncio.ensure_future(anext(batches))
                else:
                    self.look()
        finally:
            pending.cancel()
            with contextlib.suppress(asyncio.CancelledError, HostlerError):
                await pending
            await batches.aclose()

    def _take(self, batch: list[StoredResult]) -> None:
        for entry in batch:
            self.after = entry.sequence
            if entry.type:
                text = bytes(entry.json).decode()
                self.note("watched", cursor=entry.sequence, type=entry.type, text=text)

    def look(self) -> None:
        """Once all is at rest: see whether this one has seen all, and how long it waits for it."""
        now = self.life.world.loop.time()
        if not self.life.calm.is_set() or self.life.waiting():
            self._late_at = None
            return
        last = max(shown_of(self.life, self.data["conversation"]), default=0)
        if self.after is not None and self.after >= last:
            self.done = True
            self.note("watch ends", cursor=self.after)
        elif self._late_at is None:
            self._late_at = now + LATE_SECONDS
        elif now > self._late_at:
            self.done = True
            self.note("watch waits", cursor=self.after, last=last)


def shown_of(life: Life, conversation: str | None) -> dict[int, Shown]:
    """Return what the facts say that a stream shows, by sequence, without asking the product."""
    only = ""
    if conversation is not None:
        only = f" AND t.conversation_id IN ('{conversation}', '{digest_of(conversation)}')"
    found: dict[int, Shown] = {}
    of = f"t.workspace_id = '{WORKSPACE}'{only}"
    for last, kind, event in life.rows(
        f"SELECT t.last_seq, t.kind, t.event_id FROM timeline t WHERE t.kind <> 'journal' AND {of}"
    ):
        found[last] = Shown("event.received" if kind == "event" else "conversation.deleted", event, None)
    for seq, run, kind, name, count, data in life.rows(
        "SELECT t.last_seq - t.last_position + j.last_position, j.run_id, j.kind, j.type, j.count, j.data"
        " FROM timeline t JOIN journal j ON j.run_id = t.run_id"
        " AND j.last_position BETWEEN t.last_position - t.count + 1 AND t.last_position"
        " WHERE t.kind = 'journal' AND j.kind IN ('result', 'lifecycle', 'steering', 'decision')"
        f" AND j.type <> 'pause.vote' AND {of}"
    ):
        match kind:
            case "result":
                for number, line in enumerate(data.split("\n"), seq - count + 1):
                    found[number] = Shown(name, run, line)
            case "lifecycle":
                found[seq] = Shown("run.status", run, name)
            case "decision":
                found[seq] = Shown(
                    "pause.call" if name.startswith("pause.call.") else "pause.status", run, None
                )
            case _:
                found[seq] = Shown(name, run, None)
    return found


ACTIONS = {"watch": watch}
