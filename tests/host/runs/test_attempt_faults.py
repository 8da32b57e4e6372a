"""An unexpected error in the background work of an attempt ends that attempt, with the error."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hostler.calls.executor import CallExecutor
from hostler.pauses.explicit import ExplicitPauses
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.manifest import Capabilities
from support.attempts import attempts

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
SECONDS = 5.0
PAUSED = {"pending": [{"kind": "question", "tool_name": "size", "title": "Which?", "arguments": {}}]}


async def _broken(*_args: Any, **_options: Any) -> None:
    raise LookupError("injected")


async def test_an_error_while_a_pause_of_the_runner_is_prepared(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExplicitPauses, "prepare", _broken)
    async with attempts(database, tmp_path, capabilities=Capabilities(continuation=True)) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.results(run.run_id, ("run.paused", PAUSED))
        async with asyncio.timeout(SECONDS):
            with pytest.raises(LookupError, match="injected"):
                await task


async def test_an_error_while_a_run_is_parked(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallExecutor, "quiet", _broken)
    capable = Capabilities(resumable=True)
    async with attempts(database, tmp_path, capabilities=capable, hold_seconds=0) as host:
        run = await host.open()
        _, task = await host.started(run)
        host.plugin.call("interaction.request", run.run_id)
        async with asyncio.timeout(SECONDS):
            with pytest.raises(LookupError, match="injected"):
                await task
