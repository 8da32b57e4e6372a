"""A running host collects what is no longer kept, by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.domain.retention import RetentionPolicy
from hostler.host.config import Settings
from hostler.host.config_file import parse_config
from hostler.host.host import Host
from hostler.host.lock import maintenance
from hostler.storage.stores import artifacts, audit
from hostler.storage.stores.artifacts import NewArtifact
from hostler_protocol.errors import ConflictError, InvalidArgumentError

pytestmark = pytest.mark.gate("retention")

SOON = 0.05


async def _artifact(host: Host, ws: str = "default", expires_at: int | None = None) -> str:
    blob = await host.blobs.put(b"old")
    new = NewArtifact(artifact_type="file", blob=blob, source="upload", expires_at=expires_at)
    stored = await host.db.write(lambda tx: artifacts.create(tx, ws, new))
    assert isinstance(stored, artifacts.StoredArtifact)
    return stored.artifact_id


async def _expired_artifact(host: Host) -> str:
    """An artifact that expired long ago; its row is there until it is collected."""
    artifact_id = await _artifact(host, expires_at=1)
    # a workspace is known by its events and audit facts
    await host.apply(parse_config("retention: {deltas: 7}", name="c.yaml"), actor="test")
    return artifact_id


async def _gone(host: Host, artifact_id: str, ws: str = "default") -> None:
    while await host.db.read(lambda tx: artifacts.exists(tx, ws, artifact_id)):
        await asyncio.sleep(SOON)


async def test_what_expired_is_collected_while_the_host_runs(tmp_path: Path) -> None:
    async with Host.open(Settings(data_dir=tmp_path, collect_seconds=SOON)) as host:
        await _gone(host, await _expired_artifact(host))


async def test_a_backup_goes_first(tmp_path: Path) -> None:
    async with Host.open(Settings(data_dir=tmp_path, collect_seconds=SOON)) as host:
        with maintenance(tmp_path, shared=True):
            artifact_id = await _expired_artifact(host)
            await asyncio.sleep(SOON * 4)  # turns that are left out
            assert await host.db.read(lambda tx: artifacts.exists(tx, "default", artifact_id))
            with pytest.raises(ConflictError, match="backup"), maintenance(tmp_path, shared=False):
                pass
        await _gone(host, artifact_id)


async def test_the_policy_is_kept_and_exported(tmp_path: Path) -> None:
    async with Host.open(Settings(data_dir=tmp_path)) as host:
        first = await host.apply(parse_config("retention: {journals: 30}", name="c.yaml"), actor="test")
        assert [(c.kind, c.change) for c in first.changes] == [("retention", "added")]
    async with Host.open(Settings(data_dir=tmp_path)) as host:
        kept = (await host.export()).retention
        assert kept is not None
        assert kept.journals == 30


async def test_a_workspace_is_collected_by_its_own_retention(tmp_path: Path) -> None:
    said = "retention: {deltas: 7, artifacts: 30, workspaces: {tenant: {artifacts: 0}}}"
    async with Host.open(Settings(data_dir=tmp_path, collect_seconds=SOON)) as host:
        kept, old = await _artifact(host), await _artifact(host, "tenant")
        await host.db.write(lambda tx: audit.record(tx, "tenant", "test", "seen", "x", {}))
        await host.apply(parse_config(said, name="c.yaml"), actor="test")
        await _gone(host, old, "tenant")
        assert await host.db.read(lambda tx: artifacts.exists(tx, "default", kept))


def test_what_a_workspace_says_goes_before_what_is_said_of_all() -> None:
    retention = parse_config(
        "retention: {deltas: 7, journals: 30, workspaces: "
        "{a: {deltas: 1.5, states: 3}, b: {deltas: forever}}}",
        name="c.yaml",
    ).retention
    assert retention is not None
    assert retention.of("a") == RetentionPolicy(deltas=1.5, journals=30, states=3)
    assert retention.of("b") == RetentionPolicy(journals=30)
    assert retention.of("c") == RetentionPolicy(deltas=7, journals=30)


async def test_days_are_no_less_than_none(tmp_path: Path) -> None:
    async with Host.open(Settings(data_dir=tmp_path)) as host:
        with pytest.raises(InvalidArgumentError, match="journals is -1 days"):
            await host.apply(parse_config("retention: {journals: -1}", name="c.yaml"), actor="test")

        wrong = "retention: {workspaces: {a: {events: 40000}}}"
        with pytest.raises(InvalidArgumentError, match="workspace 'a': events is 40000 days"):
            await host.apply(parse_config(wrong, name="c.yaml"), actor="test")
    with pytest.raises(InvalidArgumentError, match="did you mean 'journals'"):
        parse_config("retention: {workspaces: {a: {journal: 1}}}", name="c.yaml")
    with pytest.raises(InvalidArgumentError, match=r"workspaces.*forever"):
        parse_config("retention: {workspaces: {a: {journals: for ever}}}", name="c.yaml")
    with pytest.raises(InvalidArgumentError, match="did you mean 'journals'"):
        parse_config("retention: {journal: 1}", name="c.yaml")
