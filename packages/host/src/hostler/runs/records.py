"""Runs as clients read them."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.domain.epoch import seconds
from hostler.domain.run_view import RunView
from hostler.domain.same_fields import with_fields_of
from hostler.runs.run_waits import waits_of
from hostler.runs.worker_waits import lacking_workers
from hostler.storage.port import Tx
from hostler.storage.stores import pauses, runs, transcripts
from hostler.storage.stores import run_sources as sources
from hostler.storage.stores.run_rows import Run
from hostler.storage.stores.run_sources import Source
from hostler_protocol.content import Message, text_of
from hostler_protocol.limits import MAX_PAGE_BYTES
from hostler_protocol.runs import TERMINAL_STATUSES, RunOutput, RunRecord

MAX_OUTPUT_MESSAGES = 100
"""Messages of a run's output; the rest is in its journal and its conversation's history."""
MAX_OUTPUT_BYTES = MAX_PAGE_BYTES // 2
"""Text of a run's output, so that the record fits into a page and a message."""


def record(tx: Tx, workspace_id: str, run_id: str) -> RunRecord:
    """Return a run with its output. NotFoundError if the workspace has no such run."""
    run = runs.get(tx, workspace_id, run_id)
    return record_of(run, output(tx, run), sources.find(tx, workspace_id, run_id))


def record_of(run: Run, said: RunOutput | None = None, source: Source | None = None) -> RunRecord:
    """Return a stored run as clients read it."""
    of = {} if source is None else {source.kind: source.source_run_id}
    return with_fields_of(
        run,
        RunRecord,
        agent=run.agent_name,
        created_at=run.created_at / 1000,
        started_at=seconds(run.started_at),
        finished_at=seconds(run.finished_at),
        deadline_at=seconds(run.deadline_at),
        cancel_requested_at=seconds(run.cancel_requested_at),
        cost=None if run.cost is None else float(run.cost),
        output=said,
        retry_of=of.get("retry"),
        forked_from=of.get("fork"),
        forked_at=None if source is None else source.step,
    )


def shown(tx: Tx, ws: str, found: Sequence[RunRecord]) -> list[RunView]:
    """Return runs with what they wait for: a few queries for all."""
    ids = [run.run_id for run in found if run.status not in TERMINAL_STATUSES]
    waiting = pauses.waiting_runs(tx, ws, ids) if ids else frozenset[str]()
    lacking = lacking_workers(tx, ws, [run.run_id for run in found if run.status == "queued"])
    waits = waits_of(tx, ws, ids, lacking)
    return [
        with_fields_of(
            run,
            RunView,
            waiting=run.run_id in waiting,
            waits_for=lacking.get(run.run_id),
            waits=waits.get(run.run_id, []),
        )
        for run in found
    ]


def output(tx: Tx, run: Run) -> RunOutput:
    """Return the completed assistant messages of a run, at most MAX_OUTPUT_BYTES of text but at least one."""
    messages: list[Message] = []
    room = MAX_OUTPUT_BYTES
    for message in transcripts.of_run(tx, run.workspace_id, run.run_id, MAX_OUTPUT_MESSAGES):
        if message.role != "assistant":
            continue
        room -= len(text_of(message.content).encode())
        if messages and room < 0:
            break
        messages.append(message)
    text = "\n".join(text for message in messages if (text := text_of(message.content)))
    return RunOutput(text=text, messages=messages)
