"""Runs by the hundred thousand, written straight into a SQLite database: as if they had been made."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATUSES = ("completed",) * 97 + ("failed", "cancelled", "timeout")
AGENTS = tuple(f"agent-{number}" for number in range(20))
NEWEST_MS = 1_700_000_000_000
STEP_MS = 1000
"""Between two runs."""
COLUMNS = (
    *("workspace_id", "run_id", "agent_id", "agent_name", "agent_version", "runner_id", "conversation_id"),
    *("lane", "parallel", "priority", "ordinal", "status", "attempt", "crashes", "position", "sequence"),
    *("kept_sequence", "binding", "usage", "cost", "created_at", "started_at", "finished_at"),
)


def run_row(number: int, workspace: str = "default") -> tuple[Any, ...]:
    """Run number 0 is the newest. One in a thousand costs 9; one in a hundred has no cost."""
    created = NEWEST_MS - number * STEP_MS
    agent = AGENTS[number % len(AGENTS)]
    usage = json.dumps({"input_tokens": 100, "output_tokens": 10, "total_tokens": 110})
    cost = "9" if number % 1000 == 0 else None if number % 100 == 1 else "0.25"
    run_id = f"00000000-0000-7000-8000-{99_999_999 - number:012}"
    return (
        *(workspace, run_id, agent, agent, 1, "plugin:test/puppet/default"),
        *(f"conversation {number}", run_id, 0, 0, -number, STATUSES[number % len(STATUSES)]),
        *(1, 0, 9, 4, 0, "{}", usage, cost, created, created + 5, created + 505),
    )


def insert_runs(database: Path, count: int, *, rare_tool: str = "rare.tool") -> None:
    """Write `count` runs; one in a hundred uses `common.tool`, and one in ten thousand a rare one."""
    marks = ",".join("?" * len(COLUMNS))

    def rows() -> Iterator[tuple[Any, ...]]:
        return (run_row(number) for number in range(count))

    def tools() -> Iterator[tuple[Any, ...]]:
        for first, each, name in ((0, 100, "common.tool"), (9_999, 10_000, rare_tool)):
            for number in range(first, count, each):
                row = dict(zip(COLUMNS, run_row(number), strict=True))
                yield (row["workspace_id"], name, row["created_at"], row["run_id"])

    with sqlite3.connect(database) as connection:
        connection.executemany(f"INSERT INTO runs ({','.join(COLUMNS)}) VALUES ({marks})", rows())
        connection.executemany(
            "INSERT INTO run_tools (workspace_id, tool_name, created_at, run_id) VALUES (?,?,?,?)", tools()
        )
    connection.close()


def insert_journal(database: Path, run_id: str, steps: int, text: str = "x" * 700) -> int:
    """Give a stored run a journal: in turns a message, a model call, a tool call."""
    entries: list[tuple[str, str, dict[str, Any]]] = []
    for number in range(steps):
        match number % 3:
            case 0:
                message = {"role": "assistant", "content": f"message {number} {text}"}
                entries.append(("result", "message.completed", {"data": {"message": message}}))
            case 1:
                prompt = {
                    "model_id": "main",
                    "messages": [{"role": "user", "content": f"prompt {number} {text}"}],
                }
                call = {"method": "model.stream", "digest": f"d{number}", "nth": 1, "params": prompt, "ms": 5}
                reply = {"message": {"role": "assistant", "content": text}, "usage": {"input_tokens": 9}}
                entries.append(("call", "model.stream", {**call, "reply": reply, "cost": "0.5"}))
            case _:
                named = {"tool_name": f"tool.{number}", "parameters": {"text": text}}
                call = {"method": "tool.call", "digest": f"d{number}", "nth": 1, "params": named, "ms": 5}
                entries.append(("call", "tool.call", {**call, "effect": "pure", "reply": {"text": text}}))
    with sqlite3.connect(database) as connection:
        (first,) = connection.execute("SELECT created_at FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        rows = [
            (
                *(run_id, at, 1, at if kind == "result" else None, 1, kind, type_),
                json.dumps(data),
                None,
                first + at,
                "default",
            )
            for at, (kind, type_, data) in enumerate(entries, 1)
        ]
        connection.execute("DELETE FROM journal WHERE run_id = ?", (run_id,))
        connection.executemany(
            "INSERT INTO journal (run_id, last_position, count, last_sequence, attempt, kind, type, data, "
            "blob, at, workspace_id) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            rows,
        )
        connection.execute(
            "UPDATE runs SET position = ?, sequence = ? WHERE run_id = ?", (len(rows), len(rows), run_id)
        )
    connection.close()
    return len(rows)
