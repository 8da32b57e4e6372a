"""Let a schedule be due now, as if its time had come: no test waits for a minute of a clock."""

from __future__ import annotations

from hostler.host.host import Host
from hostler.storage.port import Query

_MOVED = (
    "UPDATE schedules SET next_planned = {now} - {ago}, next_at = {now} - {ago}, anchor = {now} - {ago} "
    "WHERE workspace_id = 'default' AND name = {name}"
)
_NAMES = ("now", "ago", "now", "ago", "now", "ago", "name")
_MOVE = Query(
    "test",
    _MOVED.format(now="?", ago="?", name="?"),
    _MOVED.format(now="%(now)s", ago="CAST(%(ago)s AS bigint)", name="%(name)s"),
    names=_NAMES,
    values=lambda row: [row[name] for name in _NAMES],
)


async def make_due(host: Host, name: str, ago: int = 0) -> None:
    """Let a schedule be due, planned `ago` milliseconds in the past."""
    await host.db.write(lambda tx: tx.run(_MOVE, now=tx.now, ago=ago, name=name))
    host.scheduler.wake()
