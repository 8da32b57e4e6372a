"""Runs as recordings: exported whole, done again, gone on from."""

from __future__ import annotations

from hostler.domain.tapes import TapeFile
from hostler.http.ask import Ask
from hostler.http.endpoint import endpoint
from hostler.taping import tape_of
from hostler.version import VERSION


@endpoint("GET", "/v1/runs/{run_id}/export", right="runs:read", tag="runs")
async def export_run(ask: Ask) -> TapeFile:
    """Export a run as one document: what `hostler replay` works with.

    Its start, every result, every call with what it was told. Large answers are inline up to 16 MiB in all; a
    journal over 64 MiB is `payload_too_large`.
    """
    host = ask.surface.host
    run_id = ask.parameters["run_id"]
    return await tape_of(host.db, host.blobs, ask.workspace_id, run_id, host_version=VERSION)
