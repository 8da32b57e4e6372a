"""Deletion on request: nothing is left of what was deleted, in any table or file, and all else is there.

Kept are rows of events and runs without content, and the ids of messages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from simulation.judges.leftovers import faulty
from simulation.life import WORKSPACE, Life
from simulation.plan import Action

NOT_SEARCHED = re.compile(r"\.db(-wal|-shm)?$|^(backup|copy|replay) ")
"""Files that are searched as tables, and copies from before."""
TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%' AND name <> 'states'"
)
"""A state belongs to a conversation, to a person or to neither: `_states`."""
EMPTIED = "SELECT workspace_id, event_id FROM events WHERE body IS NULL"
WITHOUT_JOURNAL = (
    "SELECT run_id FROM runs r WHERE NOT EXISTS (SELECT 1 FROM journal j WHERE j.run_id = r.run_id)"
)


def judge(life: Life) -> list[str]:
    """All of it."""
    if not _asked(life):
        return []
    return [*_done(life), *_gone(life), *_states(life), *_left(life), *_kept(life)]


def _asked(life: Life) -> list[Action]:
    return [action for action in life.plan.actions if action.what == "erase"]


def _erased(life: Life) -> list[dict[str, Any]]:
    return [data for _, kind, data in life.outside.notes if kind == "erased"]


def _messages(life: Life, erased: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages of a conversation or a person."""
    return [
        message
        for message in _sent(life)
        if message.get("workspace", WORKSPACE) == WORKSPACE
        and erased["id"] in (message["conversation"], message.get("actor"))
    ]


def _done(life: Life) -> list[str]:
    """What was asked is done once no run is in the way."""
    done = [(one["what"], one["id"]) for one in _erased(life)]
    return [
        f"{action.data['kind']} {action.data['id']} was never deleted"
        for action in _asked(life)
        if (action.data["kind"], action.data["id"]) not in done
    ]


def _gone(life: Life) -> list[str]:
    """No table and no file has a word of a message that was accepted before, or the name of its person."""
    words = set()
    for erased in _erased(life):
        before, later = _accepted(life, erased)
        words |= {word for message in before for word in _words_of(message, _lasting(life, erased, message))}
        if not later:
            words.add(erased["id"])
    return [f"{where} has {word!r}, which was deleted" for where, word in sorted(set(_search(life, words)))]


def _accepted(life: Life, erased: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """Return the messages that were accepted before a request, and whether there may be later ones."""
    at = {data["event"]: at for at, kind, data in life.outside.notes if kind == "accepted"}
    sent = [message for message in _messages(life, erased) if message["id"] not in _refused(life)]
    before = [message for message in sent if at.get(message["id"], erased["began"]) < erased["began"]]
    return before, len(before) < len(sent)


def _refused(life: Life) -> set[str]:
    return {data["event"] for _, kind, data in life.outside.notes if kind == "refused"}


def _lasting(life: Life, erased: dict[str, Any], message: dict[str, Any]) -> tuple[str, ...]:
    """Return the steps of a message whose words may stay: state that contexts of other runs have."""
    if erased["what"] == "actor":
        return ("set", "scopes")
    talks = {other["conversation"] for other in _messages(life, {"id": message.get("actor")})}
    return ("scopes",) if len(talks) > 1 else ()  # they write state about the person too


def _words_of(message: dict[str, Any], lasting: tuple[str, ...]) -> set[str]:
    """Return the words of a message's steps other than these."""
    steps = [step for step in message["steps"] if step[0] not in lasting]
    return set(re.findall(r'"([a-z]+ \d+)"', json.dumps(steps)))


def _states(life: Life) -> list[str]:
    """State of a conversation goes with it, state about a person with the person's data."""
    found = []
    for erased in _erased(life):
        if not _accepted(life, erased)[1]:
            kind, owner = erased["what"], erased["id"]
            found += [
                f"state {key} of {kind} {owner} is left"
                for (key,) in life.rows(
                    f"SELECT key FROM states WHERE scope = '{kind}' AND {kind}_id = '{owner}'"
                )
            ]
    return found


def _search(life: Life, words: set[str]) -> Iterator[tuple[str, str]]:
    for (table,) in life.rows(TABLES) if words else []:
        columns = [row[1] for row in life.rows(f"PRAGMA table_info('{table}')")]
        for row in life.rows(f'SELECT * FROM "{table}"'):
            for column, value in zip(columns, row, strict=True):
                text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
                yield from ((f"{table}.{column}", word) for word in words if word in text)
    for path in sorted(life.folder.glob("**/*")) if words else []:
        name = path.relative_to(life.folder).as_posix()
        if path.is_file() and not NOT_SEARCHED.search(name):
            content = path.read_bytes()
            yield from ((f"file {name}", word) for word in words if word.encode() in content)


def _left(life: Life) -> list[str]:
    """The bytes of files are off the disk; what a crash left without a row goes an hour later."""
    known = {sha for (sha,) in life.rows("SELECT sha256 FROM blobs")}
    files = {path.name for path in life.folder.glob("h?/blobs/??/??/*")}
    left = files & known if faulty(life) else files
    found = []
    for erased in _erased(life):
        deleted = _accepted(life, erased)[0]
        others = {sha for one in _sent(life) if one not in deleted for sha in _files_of(one)}
        for sha, name in (file for message in deleted for file in _files_of(message).items()):
            if sha in left - others:  # a file of one byte may have the byte of another one
                found.append(f"the bytes of {name} are left")
    return found


def _sent(life: Life) -> list[dict[str, Any]]:
    return [action.data for action in life.plan.actions if action.what == "message"]


def _files_of(message: dict[str, Any]) -> dict[str, str]:
    """Return the files that a message has made, name by digest."""
    return {
        hashlib.sha256((hashlib.sha256(name.encode()).digest() * (size // 32 + 1))[:size]).hexdigest(): name
        for kind, *rest in message["steps"]
        if kind == "file"
        for name, size in [rest]
    }


def _kept(life: Life) -> list[str]:
    """Nothing else was deleted."""
    deleted = {message["id"] for erased in _asked(life) for message in _messages(life, erased.data)}
    talks = {message["conversation"] for erased in _asked(life) for message in _messages(life, erased.data)}
    touched = {
        action.data["id"]
        for action in life.plan.actions
        if action.what == "message" and action.data["conversation"] in talks
    }
    roots = _roots(life)
    tops = {event: roots[run][1] for run, event in life.rows("SELECT run_id, event_id FROM runs")}
    found = [
        f"event {event} of {workspace} is emptied, and nobody deleted it"
        for workspace, event in life.rows(EMPTIED)
        if workspace != WORKSPACE or tops.get(event, event) not in deleted
    ]
    found += [
        f"run {run} of {workspace} has lost its journal, and nobody deleted it"
        for (run,) in life.rows(WITHOUT_JOURNAL)
        for workspace, event in [roots[run]]
        if workspace != WORKSPACE or event not in touched
    ]
    return found


def _roots(life: Life) -> dict[str, tuple[str, str | None]]:
    """Return workspace and event of each run, of a child those of the run above it."""
    rows = {
        run: row for run, *row in life.rows("SELECT run_id, parent_run_id, workspace_id, event_id FROM runs")
    }
    roots = {}
    for run in rows:
        top = run
        while rows[top][0] is not None:
            top = rows[top][0]
        roots[run] = (rows[top][1], rows[top][2])
    return roots


# -- other judges ----------------------------------------------------------------------------------


def sparing(judge: Callable[[Life], list[str]]) -> Callable[[Life], list[str]]:
    """Let a judge say nothing of what was deleted: it cannot know of it any more."""

    def judged(life: Life) -> list[str]:
        found = judge(life)
        if not found or not _asked(life):
            return found
        names = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, sorted(_names(life))))})(?![\w-])")
        return [finding for finding in found if not names.search(finding)]

    return judged


def _names(life: Life) -> set[str]:
    """Ids of events, runs and pauses of which something was deleted."""
    events = {message["id"] for erased in _erased(life) for message in _messages(life, erased)}
    runs = {run for run, (_, event) in _roots(life).items() if event in events}
    runs |= {run for (run,) in life.rows(WITHOUT_JOURNAL)}
    pauses = {
        pause
        for pause, body in life.rows("SELECT target, body FROM audit WHERE action LIKE 'pause.%'")
        if json.loads(body).get("run_id") in runs
    }
    return events | runs | pauses | {"nothing at all"}
