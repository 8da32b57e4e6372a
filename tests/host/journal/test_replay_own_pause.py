"""A run that went on from a pause of its runner's own is not replayed: the runner's state is not recorded."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hostler.domain.pauses import PauseForm
from hostler.domain.tapes import TapeFile, decode_tape, read_tape
from hostler.journal.export import tape_of
from hostler.journal.replayer import Cast, Replayer
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import pause_calls, pause_claims, pauses, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import NewEntry
from hostler_protocol.errors import InvalidArgumentError
from support.pauses import WORKSPACE, call, open_pause, open_run
from support.plugin_runs import start_params

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def go_on_from(tx: Tx, form: PauseForm) -> None:
    open_run(tx)
    pause = open_pause(tx, call("k1"), form=form)
    (one,) = pause_calls.of_pause(tx, pause)
    pause_calls.decide(tx, pause, one, "denied", cause="t", actor="admin")
    pauses.settle(tx, pause, actor="admin")
    pause_claims.begin_resuming(tx, "r1", 1)
    began = msgspec.json.encode(start_params("hello", "r1").context)
    runs.append(tx, "r1", 1, [NewEntry("context", "attempt", began)])


async def recorded(database: SqlDatabase, folder: Path, form: PauseForm) -> TapeFile:
    await database.write(lambda tx: go_on_from(tx, form))
    made = await tape_of(database, BlobFolder(folder / "blobs"), WORKSPACE, "r1", host_version="1")
    return decode_tape(msgspec.json.encode(made))


async def test_a_run_that_went_on_from_its_own_pause_is_refused(
    database: SqlDatabase, tmp_path: Path
) -> None:
    made = await recorded(database, tmp_path, "explicit")
    assert made.run.own_pause
    supervisor = Supervisor(tmp_path / "data")
    try:
        with pytest.raises(InvalidArgumentError, match="whose state is not recorded"):
            await Replayer(supervisor, None).replay(read_tape(made), Cast(Folder(tmp_path)))
    finally:
        await supervisor.close(0)


async def test_a_run_whose_calls_waited_for_people_has_all_that_a_replay_needs(
    database: SqlDatabase, tmp_path: Path
) -> None:
    assert not (await recorded(database, tmp_path, "implicit")).run.own_pause
