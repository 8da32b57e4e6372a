"""Facts: workspaces are apart; transcripts, blobs and states are whole; no table holds a secret."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from simulation.life import WORKSPACE, Life

REFERENCES = (
    ("runs", "parent_run_id", "runs", "run_id"),
    ("runs", "agent_id", "agent_versions", "agent_id"),
    ("runs", "event_id", "events", "event_id"),
    ("runs", "follows", "runs", "run_id"),
    ("journal", "run_id", "runs", "run_id"),
    ("pauses", "run_id", "runs", "run_id"),
    ("pause_calls", "pause_id", "pauses", "pause_id"),
    ("decision_votes", "pause_id", "pauses", "pause_id"),
    ("steering", "run_id", "runs", "run_id"),
    ("steering", "event_id", "events", "event_id"),
    ("gathered", "event_id", "events", "event_id"),
    ("transcripts", "event_id", "events", "event_id"),
    ("transcripts", "run_id", "runs", "run_id"),
    ("events", "run_id", "runs", "run_id"),
    ("artifacts", "run_id", "runs", "run_id"),
    ("run_sources", "source_run_id", "runs", "run_id"),
    ("notices", "pause_id", "pauses", "pause_id"),
    ("notices", "run_id", "runs", "run_id"),
    ("deliveries", "notice_id", "notices", "notice_id"),
    ("states", "agent_id", "agent_versions", "agent_id"),
)
"""(table, column, table that it refers to, column there): the workspace is the same in both."""


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_tenants(life), *_transcripts(life), *_blobs(life), *_states(life), *_secrets(life)]


def _tenants(life: Life) -> list[str]:
    """No row refers to one of another workspace, or to one that does not exist."""
    found = []
    for table, column, other, key in REFERENCES:
        rows = life.rows(
            f"SELECT DISTINCT t.workspace_id, t.{column} FROM {table} t WHERE t.{column} IS NOT NULL"
            f" AND NOT EXISTS (SELECT 1 FROM {other} o"
            f" WHERE o.workspace_id = t.workspace_id AND o.{key} = t.{column})"
        )
        for workspace, value in rows:
            found.append(f"{table} of {workspace} refers to {key} {value}, which is not among its {other}")
    sent = {(action.data.get("workspace", WORKSPACE), action.data.get("id")) for action in life.plan.actions}
    names = {event for _, event in sent}
    for workspace, event in life.rows("SELECT workspace_id, event_id FROM events"):
        if event in names and (workspace, event) not in sent:
            found.append(f"event {event} is stored in {workspace}, to which nobody sent it")
    return found


def _transcripts(life: Life) -> list[str]:
    """A message of a person is in the transcript once; one of an assistant once per message of the run."""
    found = []
    for workspace, event, count in life.rows(
        "SELECT workspace_id, event_id, count(*) FROM transcripts WHERE event_id IS NOT NULL GROUP BY 1, 2"
    ):
        if count > 1:
            found.append(f"message {event} of {workspace} is in the transcript {count} times")
    said: dict[str, list[str]] = defaultdict(list)
    for run, text in life.rows(
        "SELECT run_id, data FROM journal WHERE type = 'message.completed' AND blob IS NULL"
        " ORDER BY run_id, last_position"
    ):
        message = json.loads(text)["data"]["message"]
        said[run].append(f"{message.get('message_id')}: {_text(message.get('content'))[:4000]}")
    shown: dict[str, list[str]] = defaultdict(list)
    for run, message, content in life.rows(
        "SELECT run_id, message_id, content FROM transcripts WHERE role = 'assistant' ORDER BY seq"
    ):
        shown[run].append(f"{message}: {content}")
    for run in sorted(said.keys() | shown.keys()):
        repeated = [one for one, count in Counter(shown[run]).items() if count > 1]
        if repeated and len(set(said[run])) == len(said[run]):
            found.append(f"run {run}: the transcript has {repeated[0][:80]!r} twice")
        missing = [one for one in said[run] if one not in shown[run]]
        if missing and len(shown[run]) < len(said[run]):
            found.append(f"run {run}: the transcript does not have {missing[0][:80]!r}")
        if extra := [one for one in shown[run] if one not in said[run]]:
            found.append(f"run {run}: the transcript has {extra[0][:80]!r}, which the run did not say")
    waiting = life.rows(
        "SELECT w.event_id FROM waiting_messages w JOIN transcripts t"
        " ON t.workspace_id = w.workspace_id AND t.event_id = w.event_id"
    )
    return found + [f"message {event} waits, and is in the transcript" for (event,) in waiting]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or [] if isinstance(part, dict))


def _is_whole(path: Path) -> bool:
    """Whether a blob has the content of its name or, if it is sealed, of the digest at its end."""
    content = path.read_bytes()
    sealed = (
        content.startswith(b"\x02hostler file") and hashlib.sha256(content[:-32]).digest() == content[-32:]
    )
    return sealed or hashlib.sha256(content).hexdigest() == path.name


def _blobs(life: Life) -> list[str]:
    """What refers to a blob finds it, with the content that its name promises."""
    found = []
    blobs = {sha: (size, refs) for sha, size, refs in life.rows("SELECT sha256, size_bytes, refs FROM blobs")}
    used: Counter[str] = Counter()
    for (sha,) in life.rows(
        "SELECT coalesce(stored_as, sha256) FROM artifacts WHERE registered_path IS NULL"
        " UNION ALL SELECT blob FROM journal WHERE blob IS NOT NULL"
        " UNION ALL SELECT state_blob FROM pauses WHERE state_blob IS NOT NULL"
    ):
        used[sha] += 1
    for sha, count in used.items():
        if sha not in blobs:
            found.append(f"blob {sha} is referred to, and is gone")
        elif blobs[sha][1] < count:
            found.append(f"blob {sha} is referred to {count} times, and counts {blobs[sha][1]}")
    files = [path for path in sorted(life.folder.glob("**/blobs/**/*")) if path.name in blobs]
    changed = [path for path in files if not _is_whole(path)]
    return found + [f"blob {path.name} has another content" for path in changed]


def _states(life: Life) -> list[str]:
    """Versions of values are positive, and a value is JSON."""
    found = []
    for scope, key, value, version in life.rows("SELECT scope_key, key, value, version FROM states"):
        if version < 1:
            found.append(f"state {scope} {key} has version {version}")
        if value:
            try:
                json.loads(value)
            except ValueError:
                found.append(f"state {scope} {key} is not JSON")
    return found


def _secrets(life: Life) -> list[str]:
    """No table holds a secret, and no line of the log."""
    secrets = sorted(life.secrets)
    found = []
    tables = life.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
    for (table,) in tables if secrets else []:
        rows = [" ".join(map(str, row)) for row in life.rows(f'SELECT * FROM "{table}"')]
        whole = "\n".join(rows)
        for text in rows if any(secret in whole for secret in secrets) else ():
            found += [f"table {table} holds the secret {secret}" for secret in secrets if secret in text]
    lines = [record.getMessage() for record in life.logged.records]
    return found + [f"the log says: {line}" for line in lines if any(secret in line for secret in secrets)]
