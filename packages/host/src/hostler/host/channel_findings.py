"""What the doctor says of channels: their connections, and messages that people have to look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hostler.host.machine_checks import Finding
from hostler.storage.port import Tx
from hostler.storage.stores import agents, channel_connections, channel_entries, outbox_upkeep
from hostler.storage.stores.channel_connections import Connection


def channel_findings(tx: Tx, workspace_id: str) -> list[Finding]:
    """Return the findings of a workspace's channels."""
    found = []
    rows = channel_connections.page(tx, workspace_id)
    for row in rows:
        if row.health == "failed":
            found.append(Finding("channel", "wrong", f"{row.channel} is not connected: {row.reason}"))
        elif row.lease_until:
            found.append(Finding("channel", "ok", f"{row.channel} is {row.health}"))
    found += _of_entries(tx, workspace_id, rows)
    for one in outbox_upkeep.counts(tx, workspace_id):
        if one.status in {"failed", "in_doubt"}:
            word = "were given up" if one.status == "failed" else "may or may not have been sent"
            command = f"hostler outbox list --status {one.status}"
            text = f"{one.number} messages of channel {one.channel} {word}: `{command}` lists them"
            found.append(Finding("outbox", "note", text))
    return found


def _of_entries(tx: Tx, workspace_id: str, rows: Iterable[Connection]) -> Iterator[Finding]:
    """Yield the channels that nobody answers in, and those that one account has twice."""
    accounts: dict[tuple[str, str], str] = {}
    for row in rows:
        entry = channel_entries.entry_of(tx, workspace_id, row.channel)
        if entry is None or not entry.enabled:
            continue
        if entry.agent is not None and (why := _unanswered(tx, workspace_id, entry.agent)) is not None:
            text = f"{row.channel}: {why}, so what is said there is stored and not answered"
            yield Finding("channel", "wrong", text)
        if row.account is None or row.health != "connected":
            continue
        other = accounts.setdefault((entry.channel, row.account.person_id), row.channel)
        if other != row.channel:
            text = f"{other} and {row.channel} are connected as one account, {row.account.person_id!r:.100}"
            why = "each message may come through both of them, or only one: remove an entry, or disable it"
            yield Finding("channel", "wrong", f"{text}: {why}")


def _unanswered(tx: Tx, workspace_id: str, name: str) -> str | None:
    """Return why an agent takes no events, or None."""
    if name in agents.unreadable(tx, workspace_id):
        return f"this version cannot read its agent {name!r:.100}"
    agent = agents.readable(tx, workspace_id, name)
    if agent is None:
        return f"there is no agent {name!r:.100}"
    return None if agent.spec.enabled else f"its agent {name!r:.100} is disabled"
