"""Keeps what a host acknowledged, outside of it, and compares that with what is found in the end.

It reads the database with SQL of its own, so that a mistake of the stores cannot hide itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from support.server_process import HOSTLER, READY_SECONDS, HostProcess
from support.wire_client import Seen, ask

TERMINAL = {"completed", "failed", "cancelled", "timeout"}
ENDINGS = {"run.completed", "run.failed"}


_ENDS = "SELECT run_id FROM journal WHERE kind = 'result' AND type IN ('run.completed', 'run.failed')"


@dataclass
class Oracle:
    """The independent witness."""

    accepted: dict[str, str] = field(default_factory=dict)
    """event id -> run id, of every answer that came."""
    seen: dict[str, list[Seen]] = field(default_factory=dict)
    """run id -> what its readers got."""
    resumed: int = 0
    """How many streams went on after they had broken off."""

    def accept(self, event_id: str, answer: dict[str, Any]) -> str:
        """An event was acknowledged; the run that has it."""
        assert answer["event_id"] == event_id, answer
        assert answer["run"] is not None, answer
        run_id = str(answer["run"]["run_id"])
        assert self.accepted.setdefault(event_id, run_id) == run_id, f"event {event_id} has a second run"
        return run_id

    def see(self, run_id: str, results: list[Seen]) -> bool:
        """A reader got results; whether the run is over."""
        so_far = self.seen.setdefault(run_id, [])
        for result in results:
            assert result.sequence == len(so_far) + 1, (
                f"run {run_id}: {result.sequence} came after {len(so_far)}"
            )
            assert not (so_far and so_far[-1].type in ENDINGS), f"run {run_id} went on after its end"
            so_far.append(result)
        return so_far[-1].type in ENDINGS

    def last(self, run_id: str) -> int:
        """The last sequence seen."""
        return len(self.seen.get(run_id, []))

    async def check_streams(self, host: HostProcess) -> int:
        """What readers saw is exactly what the journal holds; how many results that is."""
        total = 0
        for run_id, seen in self.seen.items():
            held = [_without_name(entry) async for entry in _journal_results(host, run_id)]
            assert held == [_of_stream(result) for result in seen], f"run {run_id}"
            assert [result.type in ENDINGS for result in seen] == [False] * (len(seen) - 1) + [True]
            total += len(seen)
        return total

    def check_facts(self, url: str, blobs: Path, acknowledged: Path) -> None:
        """Nothing acknowledged is missing from the database at `url`, and every run has one end."""
        runs = {str(row[0]): row[1:] for row in rows(url, "SELECT run_id, event_id, status FROM runs")}
        events = dict(rows(url, "SELECT event_id, run_id FROM events"))
        assert {event_id: events.get(event_id) for event_id in self.accepted} == self.accepted
        per_event = Counter(event_id for event_id, _ in runs.values())
        assert set(per_event.values()) == {1}
        assert per_event.keys() == events.keys()
        assert {status for _, status in runs.values()} <= TERMINAL, Counter(s for _, s in runs.values())
        ends = Counter(str(run_id) for (run_id,) in rows(url, _ENDS))
        assert ends == Counter(dict.fromkeys(runs, 1)), "a run without, or with a second, terminal result"
        self._check_transcript(url, events)
        self._check_states(url, acknowledged)
        self._check_artifacts(url, blobs)

    def _results(self, kind: str) -> list[tuple[str, Any]]:
        return [
            (run_id, msgspec.json.decode(result.data)["data"])
            for run_id, results in self.seen.items()
            for result in results
            if result.type == kind
        ]

    def _check_transcript(self, url: str, events: dict[str, str]) -> None:
        said = Counter(
            (str(run_id), str(content))
            for run_id, content in rows(
                url, "SELECT run_id, content FROM transcripts WHERE role = 'assistant'"
            )
        )
        shown = Counter(
            (run_id, data["message"]["content"]) for run_id, data in self._results("message.completed")
        )
        assert {key: said[key] for key in shown} == shown
        asked = Counter(row[0] for row in rows(url, "SELECT event_id FROM transcripts WHERE role = 'user'"))
        assert asked == Counter(dict.fromkeys(events, 1)), "each event stands in the transcript once"

    def _check_states(self, url: str, acknowledged: Path) -> None:
        states = {str(key): int(version) for key, version in rows(url, "SELECT key, version FROM states")}
        for _, data in self._results("state.updated"):
            assert data["key"] in states, data
        for line in acknowledged.read_text().splitlines():
            key, version = line.split()
            assert states.get(key, 0) >= int(version), f"a call was answered, and is gone: {line}"

    def _check_artifacts(self, url: str, blobs: Path) -> None:
        stored = dict(rows(url, "SELECT artifact_id, sha256 FROM artifacts"))
        on_disk = {path.name: path for path in blobs.rglob("*") if path.is_file()}
        for _, data in self._results("artifact.created"):
            sha256 = stored[data["artifact_id"]]
            assert sha256 == data["sha256"]
            assert hashlib.sha256(on_disk[sha256].read_bytes()).hexdigest() == sha256


def check_chains(data: Path, database: str | None = None) -> int:
    """`hostler audit verify` finds nothing wrong; how many events it has looked at."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOSTLER_")}
    if database is not None:
        environment["HOSTLER_DATABASE"] = database
    verified = subprocess.run(
        [*HOSTLER, "audit", "verify", "--json", "--data", str(data)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=READY_SECONDS,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    chains = json.loads(verified.stdout)
    assert all(chain["broken"] is None for chain in chains)
    return int(next(chain["checked"] for chain in chains if chain["chain"] == "events"))


async def _journal_results(host: HostProcess, run_id: str) -> Any:
    after = "0"
    while True:
        answer = await ask(host.url, "GET", f"/v1/runs/{run_id}/journal?after={after}&limit=100")
        assert answer.status == 200, answer
        page = answer.json()
        for entry in page["items"]:
            if entry["kind"] == "result":
                yield entry
        if not page["has_more"]:
            return
        after = page["next_cursor"]


def _without_name(entry: dict[str, Any]) -> tuple[int, str, Any]:
    return entry["sequence"], entry["type"], entry["data"]


def _of_stream(result: Seen) -> tuple[int, str, Any]:
    return result.sequence, result.type, msgspec.json.decode(result.data)["data"]


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """What a query finds in the database at `url`."""
    if url.startswith("postgresql:"):
        with psycopg.connect(url) as server:
            return server.execute(query.encode()).fetchall()
    with sqlite3.connect(url) as file:
        return file.execute(query).fetchall()
