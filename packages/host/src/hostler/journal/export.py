"""Export a recorded run as one document: its journal, with large data read back from the blob folder."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hostler.domain.config_form import HIDDEN
from hostler.domain.grants import Grant
from hostler.domain.secret_refs import is_sealed
from hostler.domain.tapes import VERSION, TapeEntry, TapeFile, TapeRun
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, journal, pauses, run_sources, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import StoredEntry
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import PayloadTooLargeError
from hostler_protocol.events import AgentRunContext
from hostler_protocol.limits import MIB

MAX_TAPE_BYTES = 64 * MIB
"""A longer journal is not exported, since the document is built in memory."""
MAX_BLOB_BYTES = 16 * MIB
"""The most large data of all entries together. The rest is left out; a replay ends where it needs it."""
_PAGE_ENTRIES = 1_000


class _Origin(NamedTuple):
    run: Run
    config: dict[str, object]
    own_pause: bool


async def tape_of(
    db: Database, blobs: BlobFolder, workspace_id: str, run_id: str, *, host_version: str
) -> TapeFile:
    """Return the run as a tape. NotFoundError; PayloadTooLargeError if its journal is too long."""
    run, config, own_pause = await db.read(lambda tx: _origin(tx, workspace_id, run_id))
    entries: list[TapeEntry] = []
    size, room, after, more = 0, MAX_BLOB_BYTES, 0, True
    while more:
        page = await db.read(lambda tx, at=after: journal.page(tx, run_id, at, _PAGE_ENTRIES))  # type: ignore[misc]
        for entry in page.items:
            taken = await _entry(blobs, entry, room)
            room -= len(taken.data) if entry.blob is not None else 0
            size += len(taken.data)
            entries.append(taken)
            after = entry.position
        if size > MAX_TAPE_BYTES:
            raise PayloadTooLargeError(
                f"the journal of run {run_id} has over {MAX_TAPE_BYTES:,} bytes: read it by pages instead"
            )
        more = page.more
    return TapeFile(
        format="hostler.tape",
        version=VERSION,
        host_version=host_version,
        run=TapeRun(
            run_id=run.run_id,
            agent=run.agent_name,
            agent_version=run.agent_version,
            runner_id=run.runner_id,
            status=run.status,
            status_code=run.status_code,
            created_at=run.created_at / 1000,
            base_attempt=run.base_attempt,
            config=_without_secrets(config, entries),
            own_pause=own_pause,
        ),
        grant=msgspec.Raw((run.grant_json or _empty_grant(run)).encode()),
        entries=entries,
    )


def _origin(tx: Tx, workspace_id: str, run_id: str) -> _Origin:
    run = runs.get(tx, workspace_id, run_id)
    agent = agents.version(tx, workspace_id, run.agent_id, run.agent_version)
    own_pause = pauses.continued_pause(tx, run_id, run.base_attempt) is not None
    source = run_sources.find(tx, workspace_id, run_id)
    changed = {} if source is None else source.config or {}
    return _Origin(run, {} if agent is None else {**agent.spec.config, **changed}, own_pause)


async def _entry(blobs: BlobFolder, entry: StoredEntry, room: int) -> TapeEntry:
    data, left_out = entry.data.encode(), None
    if entry.blob is not None:
        stated = msgspec.json.decode(data, type=_Outline).size_bytes
        if stated <= room:
            data = b"".join([chunk async for chunk in blobs.stream(entry.blob)])
        else:
            left_out = stated
    return TapeEntry(
        position=entry.position,
        kind=entry.kind,
        type=entry.type,
        at=entry.at / 1000,
        attempt=entry.attempt,
        data=msgspec.Raw(data),
        sequence=entry.sequence,
        left_out=left_out,
    )


class _Outline(msgspec.Struct):
    size_bytes: int = 0


def _without_secrets(config: dict[str, object], entries: list[TapeEntry]) -> dict[str, object]:
    """Return the configuration; secrets in plain text are hidden, as they are in the journal."""
    began = next((entry for entry in entries if entry.kind == "context"), None)
    if began is None:
        return {}
    shown = msgspec.json.decode(began.data, type=AgentRunContext).config
    return {
        name: HIDDEN if shown.get(name) == HIDDEN or is_sealed(value) else value
        for name, value in config.items()
    }


def _empty_grant(run: Run) -> str:
    """Return a grant for a run that ended before it got one."""
    return Grant(
        workspace_id=run.workspace_id,
        agent_id=run.agent_id,
        agent_version=run.agent_version,
        runner_id=run.runner_id,
        owner="",
    ).encoded
