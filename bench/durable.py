"""What being durable costs: the ledger of calls, going on after a crash, parking and resuming.

    python -m bench --only durable

A whole host in this process, real plugin processes. Raw is the same database work with nothing around it: the
very rows that were left behind, in as many synced transactions as a host needs at least, into tables and
indexes of the same shape.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
from bench.bare import bare_echo
from bench.table import Row, middle

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action, ActRequest
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, Settings
from hostler.host.host import Host
from hostler.storage.stores import journal
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import new_id

PLUGIN = Path(__file__).with_name("ledger")
PLUGIN_KEY = "bench/ledger"
RUNNER = f"plugin:{PLUGIN_KEY}/default"
BENCH = Caller("default", "bench", "bench", frozenset({"admin"}), frozenset({"installation"}))
LOOK_SECONDS = 0.001
Found = defaultdict[str, list[float]]
_numbers = itertools.count()


# -- through the host -----------------------------------------------------------------------------


@asynccontextmanager
async def hosting(folder: Path) -> AsyncIterator[Host]:
    """A host that parks at once whoever waits for people."""
    agent = {"name": "caller", "runner": RUNNER, "recovery": {"max_attempts": 2}}
    settings = Settings(data_dir=folder, workspace=BENCH.workspace_id, hold_seconds=0.0)
    async with Host.open(settings) as host:
        plugin = {"path": str(PLUGIN), "level": "trusted"}  # it writes down the moment of its death
        config = convert({"plugins": [plugin], "agents": [agent]}, ConfigFile, "bench")
        await host.apply(config, actor="bench")
        yield host


async def begin(host: Host, text: str) -> str:
    """Send an event; the id of its run."""
    number = next(_numbers)
    event = {
        "event_type": "message.received",
        "event_id": f"event {number}",
        "agent": "caller",
        "conversation_id": f"conversation {number}",
        "input": {"text": text},
    }
    accepted = await host.orchestrator.accept(msgspec.convert(event, EventEnvelope), BENCH)
    if accepted.run is None:
        raise RuntimeError(f"no run: {accepted}")
    return accepted.run.run_id


async def ended(host: Host, run_id: str) -> float:
    """What the run said at its end: seconds."""
    async for _ in host.runs.feed.watch(run_id):
        pass
    record = await host.runs.record(BENCH.workspace_id, run_id)
    if record.status != "completed" or record.output is None:
        raise RuntimeError(f"a run went wrong: {record}")
    return float(record.output.text or "nan")


async def call_seconds(host: Host, command: str, calls: int) -> tuple[float, str]:
    """Seconds of one call, as the runner sees it; and its run."""
    run_id = await begin(host, f"{command} {calls}")
    return await ended(host, run_id) / calls, run_id


async def crash_seconds(host: Host, folder: Path, calls: int) -> tuple[float, str]:
    """Seconds from the death of a process, after so many calls, to the end of its run in the next one."""
    # a process that has not failed before: no back-off has grown, no breaker opens
    await host.supervisor.restart(PLUGIN_KEY)
    died = folder / "died"
    run_id = await begin(host, f"crash {calls} {died}")
    await ended(host, run_id)
    return time.time() - float(died.read_text()), run_id


async def pause_seconds(host: Host) -> tuple[float, float, str]:
    """(from the question to a parked run, from its answer to the run's end, the run)."""
    run_id = await begin(host, "ask")
    async for batch in host.runs.feed.watch(run_id):
        if batch[-1].type == "run.paused":
            break
    parked = time.time()
    while host.dispatcher.active:  # its place is free as well
        await asyncio.sleep(LOOK_SECONDS)
    (pause,) = (await host.pauses.page(BENCH, run_id=run_id)).items
    answer = Action(call_id=pause.calls[0].call_id, type="answer")
    began = time.perf_counter()
    await host.pauses.act(BENCH, pause.id, ActRequest(revision=pause.revision, actions=[answer]))
    await ended(host, run_id)
    resumed = time.perf_counter() - began
    return parked - await _asked_at(host, run_id), resumed, run_id


async def _asked_at(host: Host, run_id: str) -> float:
    """When the runner could ask: its call before that was written."""
    page = await host.db.read(lambda tx: journal.page(tx, run_id))
    (at,) = [entry.at for entry in page.items if entry.kind == "call" and entry.type == "state.set"]
    return at / 1000


# -- raw ------------------------------------------------------------------------------------------


class Raw:
    """The rows of one run, written again and again into tables of the same shape."""

    def __init__(self, path: Path, run_id: str) -> None:
        self.run_id = run_id
        self._source = sqlite3.connect(path)
        self.pause_id = next(iter(self._one("SELECT pause_id FROM pauses WHERE run_id = ?")), None)
        self._target = sqlite3.connect(path.with_name(f"raw {run_id}.db"), isolation_level=None)
        self._target.execute("PRAGMA journal_mode=WAL")
        self._target.execute("PRAGMA synchronous=FULL")
        for (statement,) in self._source.execute(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name IN"
            " ('journal', 'pauses', 'pause_calls') ORDER BY type DESC"
        ):
            self._target.execute(statement)

    def _one(self, query: str) -> Sequence[Any]:
        return self._source.execute(query, (self.run_id,)).fetchone() or ()

    def rows(self, table: str, where: str = "") -> list[tuple[str, tuple[Any, ...]]]:
        """Rows of the run as INSERT statements with their values."""
        key, value = ("pause_id", self.pause_id) if table == "pause_calls" else ("run_id", self.run_id)
        cursor = self._source.execute(f"SELECT * FROM {table} WHERE {key} = ? {where}", (value,))
        columns = [column[0] for column in cursor.description]
        statement = f"INSERT INTO {table} ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})"
        return [(statement, row) for row in cursor]

    def writing(self, *transactions: list[tuple[str, tuple[Any, ...]]]) -> Callable[[], None]:
        """A function that writes these rows, as those of another run, in so many synced transactions."""
        if not all(transactions):
            raise RuntimeError("the run left no rows behind")

        def write() -> None:
            swap = {self.run_id: new_id()}
            if self.pause_id is not None:
                swap[self.pause_id] = new_id()
            for rows in transactions:
                self._target.execute("BEGIN IMMEDIATE")
                for statement, values in rows:
                    self._target.execute(statement, [swap.get(value, value) for value in values])
                self._target.execute("COMMIT")

        return write

    def read(self) -> None:
        """Read the whole journal of the run."""
        self._source.execute("SELECT * FROM journal WHERE run_id = ?", (self.run_id,)).fetchall()

    def close(self) -> None:
        """Close both files."""
        self._source.close()
        self._target.close()


def seconds_of(work: Callable[[], None], times: int) -> float:
    """The median of so many times, after two that warm up."""
    found = []
    for _ in range(times + 2):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return middle(found[2:])


# -- all of it ------------------------------------------------------------------------------------


async def measure(quick: bool) -> list[Row]:
    """In turns, so that a noisy neighbour hurts both sides alike."""
    calls, recorded, times = (20, 100, 1) if quick else (300, 1_000, 9)
    found: defaultdict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with hosting(folder) as host, bare_echo() as echo:
            await call_seconds(host, "touch", 2)
            for _ in range(times):
                await _calls(host, folder, calls, found)
                await _crashes(host, folder, recorded, found)
                found["echo"].append(recorded * await echo(recorded))
                await _pauses(host, folder, found)
    return _rows({what: middle(values) * 1e3 for what, values in found.items()}, recorded)


async def _calls(host: Host, folder: Path, calls: int, found: Found) -> None:
    for command in ("read", "write", "touch"):
        seconds, run_id = await call_seconds(host, command, calls)
        found[command].append(seconds)
    with closing(Raw(folder / "hostler.db", run_id)) as raw:
        intent, outcome = (raw.rows("journal", f"AND kind = '{kind}' LIMIT 1") for kind in ("intent", "call"))
        found["raw touch"].append(seconds_of(raw.writing(intent, outcome), calls))
        found["raw write"].append(seconds_of(raw.writing(outcome), calls))


async def _crashes(host: Host, folder: Path, recorded: int, found: Found) -> None:
    found["new process"].append((await crash_seconds(host, folder, 0))[0])
    seconds, run_id = await crash_seconds(host, folder, recorded)
    found["resume"].append(seconds)
    with closing(Raw(folder / "hostler.db", run_id)) as raw:
        found["raw resume"].append(seconds_of(raw.read, 5))


async def _pauses(host: Host, folder: Path, found: Found) -> None:
    for _ in range(3):
        parked, decided, run_id = await pause_seconds(host)
        found["park"].append(parked)
        found["decide"].append(decided)
    with closing(Raw(folder / "hostler.db", run_id)) as raw:
        asked, told = (raw.rows("journal", f"AND attempt = {attempt}") for attempt in (1, 2))
        pause = raw.rows("pauses") + raw.rows("pause_calls")
        found["raw park"].append(seconds_of(raw.writing(pause, asked), 20))
        found["raw decide"].append(seconds_of(raw.writing(pause, told), 20))


def _rows(ms: dict[str, float], recorded: int) -> list[Row]:
    def row(name: str, value: float, raw: str, against: str, goal: str = "") -> Row:
        return Row(name, value, "ms", value / ms[raw], f"{against} ({ms[raw]:.2f} ms)", goal)

    beyond = max(0.0, ms["resume"] - ms["new process"])
    return [
        Row("a recorded call that only reads", ms["read"], "ms"),
        row("a recorded call that writes", ms["write"], "raw write", "its row in a raw SQLite transaction"),
        row("a tool call: intent, tool, outcome", ms["touch"], "raw touch", "its two rows in two of them"),
        Row("from a dead process to the end of its run in the next", ms["new process"], "ms"),
        row(
            f"&nbsp; what a journal of {recorded:,} calls adds to that",
            beyond,
            "raw resume",
            "reading these rows raw",
        ),
        Row(
            "&nbsp; the same against as many echoes, one after the other",
            beyond,
            "ms",
            beyond / ms["echo"],
            f"a bare asyncio pipe ({ms['echo']:.0f} ms)",
            "at most 1",
        ),
        row(
            "from a question to a parked run",
            ms["park"],
            "raw park",
            "its rows in two raw transactions",
            "at most 6 ms",
        ),
        row(
            "from the answer to the end of the run",
            ms["decide"],
            "raw decide",
            "its rows in two of them",
            "at most 8 ms",
        ),
    ]


def rows(quick: bool) -> list[Row]:
    """Measure."""
    return asyncio.run(measure(quick))
