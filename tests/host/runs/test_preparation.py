"""An attempt is prepared from stored facts alone: grant, configuration, context and deadline."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from hostler.domain.config_form import HIDDEN
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import state_values
from hostler_protocol.errors import HostError, InvalidArgumentError, NotFoundError
from hostler_protocol.limits import MAX_STATE_VALUE_BYTES
from hostler_protocol.manifest import FormItem, Permissions
from support.call_world import catalog
from support.grants import manifest_of
from support.preparations import preparing


async def test_the_first_attempt_gets_a_grant_and_a_context_that_is_journalled(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with preparing(database, tmp_path) as host:
        prepared = await host.prepare(await host.open())
        assert list(prepared.grant.models) == ["gpt"]
        assert prepared.context.input.text == "hello"
        assert [model.model_id for model in prepared.context.resources.models] == ["gpt"]
        assert prepared.context_entry is not None
        assert (prepared.cause, prepared.recording) == ("", None)


async def test_a_later_attempt_keeps_the_grant_of_the_first(database: SqlDatabase, tmp_path: Path) -> None:
    async with preparing(database, tmp_path) as host:
        run = await host.open()
        first = await host.prepare(run)
        again = msgspec.structs.replace(run, attempt=2, base_attempt=2, grant_json=first.grant.encoded)
        host.preparer.catalog = lambda _: type(catalog(host.world.services.models))(models={})
        later = await host.prepare(again)
        assert list(later.grant.models) == ["gpt"]
        assert later.context.attempt == 2


async def test_a_runner_that_the_plugin_has_not_is_named_with_those_it_has(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with preparing(database, tmp_path) as host:
        run = await host.open()
        host.runners = {"other": manifest_of()}
        with pytest.raises(NotFoundError, match="no runner 'default'; its runners are: other"):
            await host.prepare(run)


async def test_a_run_whose_event_was_deleted_cannot_be_prepared(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with preparing(database, tmp_path) as host:
        run = await host.open(event_id="e-gone")
        with pytest.raises(HostError, match="the event of this run was deleted"):
            await host.prepare(run)


async def test_a_wrong_configuration_names_its_item(database: SqlDatabase, tmp_path: Path) -> None:
    async with preparing(database, tmp_path) as host:
        host.runners = {"default": manifest_of(form=[FormItem(name="tries", type="integer")])}
        with pytest.raises(InvalidArgumentError, match="tries"):
            await host.prepare(await host.open(spec={"config": {"tries": "many"}}))


async def test_a_secret_reaches_the_runner_and_not_the_journal(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREPARED_KEY", "s3cret")
    async with preparing(database, tmp_path) as host:
        form = [FormItem(name="key", type="secret"), FormItem(name="typed", type="secret")]
        host.runners = {"default": manifest_of(form=form)}
        config = {"key": "env:PREPARED_KEY", "typed": "in the clear"}
        prepared = await host.prepare(await host.open(spec={"config": config}))
        assert prepared.context.config == {"key": "s3cret", "typed": "in the clear"}
        assert prepared.context_entry is not None
        journalled = str(prepared.context_entry.data)
        assert "s3cret" not in journalled
        assert "in the clear" not in journalled
        assert "env:PREPARED_KEY" in journalled
        assert HIDDEN in journalled


async def test_a_secret_that_cannot_be_resolved_names_its_reference(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREPARED_KEY", raising=False)
    async with preparing(database, tmp_path) as host:
        host.runners = {"default": manifest_of(form=[FormItem(name="key", type="secret")])}
        with pytest.raises(InvalidArgumentError, match="PREPARED_KEY"):
            await host.prepare(await host.open(spec={"config": {"key": "env:PREPARED_KEY"}}))


async def test_a_child_may_not_outlast_its_parent(database: SqlDatabase, tmp_path: Path) -> None:
    async with preparing(database, tmp_path) as host:
        soon = int(time.time() * 1000) + 60_000
        prepared = await host.prepare(await host.open(deadline_at=soon, spec={"config": {"timeout": 3600}}))
        assert prepared.deadline_at == soon / 1000


async def test_the_state_of_open_scopes_is_part_of_the_context(database: SqlDatabase, tmp_path: Path) -> None:
    async with preparing(database, tmp_path) as host:
        first = await host.prepare(await host.open())
        caller = host.world.caller()
        await caller.call("state.set", scope="conversation", key="mood", value="calm")
        assert "mood" not in first.context.state.conversation
        prepared = await host.prepare(await host.open())
        assert prepared.context.state.conversation["mood"] == "calm"


async def test_state_that_is_too_large_for_the_context_is_left_out_and_noted(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with preparing(database, tmp_path) as host:
        caller, long = host.world.caller(), "x" * (MAX_STATE_VALUE_BYTES - 2)
        for number in range(state_values.MAX_SNAPSHOT_BYTES // MAX_STATE_VALUE_BYTES + 1):
            await caller.call("state.set", scope="conversation", key=f"key {number}", value=long)
        prepared = await host.prepare(await host.open())
        assert "key 0" in prepared.context.state.conversation
        assert f"key {number}" not in prepared.context.state.conversation
        assert "state scope 'conversation' is too large for the context: read its keys by state.get" in (
            prepared.notes
        )


async def test_the_history_of_a_run_ends_before_its_own_message(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with preparing(database, tmp_path) as host:
        prepared = await host.prepare(await host.open())
        assert prepared.history_before == host.world.seqs["main", "own"]
        assert (
            prepared.context.context.transcript_seq == prepared.history_before - 1
            or (prepared.context.context.transcript_seq or 0) < prepared.history_before
        )


async def test_facts_read_with_the_claim_are_those_of_a_read_after_the_commit(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with preparing(database, tmp_path) as host:
        run, ahead = await host.open_ahead()
        assert (ahead.facts.value is None) is (
            database.dialect == "postgres"
        )  # there others wait for the commit
        prepared, later = await host.prepare(run, ahead), await host.prepare(run)
        assert prepared.grant == later.grant
        assert prepared.event == later.event
        at = later.context.runtime.deadline_at
        runtime = msgspec.structs.replace(prepared.context.runtime, deadline_at=at)
        assert msgspec.structs.replace(prepared.context, runtime=runtime) == later.context


async def test_facts_read_for_a_manifest_that_the_plugin_no_longer_has_are_read_again(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with preparing(database, tmp_path) as host:
        run, ahead = await host.open_ahead()
        host.runners = {"default": manifest_of(permissions=Permissions())}
        prepared = await host.prepare(run, ahead)
        assert prepared.grant.models == {}


async def test_a_run_whose_facts_cannot_be_read_is_opened_and_its_attempt_says_why(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with preparing(database, tmp_path) as host:
        run, ahead = await host.open_ahead(event_id="e-gone")
        assert ahead.facts.value is None
        with pytest.raises(HostError, match="the event of this run was deleted"):
            await host.prepare(run, ahead)
